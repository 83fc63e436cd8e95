"""Sessions with the test cluster, straight and through a proxy that cuts connections."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.rest_server import RestServer
from tests.cluster.target import Cluster
from tests.contract.proxies import CuttingProxy

# For the tests that show each kind of request: plain, watch, log stream and WebSocket.
THROUGH_SERVER = pytest.mark.parametrize(
    "session",
    ["direct", pytest.param("server", marks=pytest.mark.practice_only)],
    indirect=True,
)


@pytest.fixture
def session(cluster: Any, namespace: str, request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session with the API server: directly, or through `kubectl sky api`."""
    connection = Connection(kubeconfig=str(cluster.kubeconfig), namespace=namespace)
    if getattr(request, "param", "direct") == "server":
        rest_server: RestServer = request.getfixturevalue("rest_server")
        connection = replace(connection, server_url=rest_server.url)
    session = Session.connect(connection)
    yield session
    session.close()


@pytest.fixture(scope="session")
def rest_server(practice_cluster: Cluster) -> Iterator[RestServer]:
    """`kubectl sky api` in front of the practice cluster."""
    with RestServer.start(practice_cluster) as server:
        yield server


@pytest.fixture(scope="session")
def both(practice_cluster: Cluster, real_cluster: Cluster) -> tuple[Cluster, Cluster]:
    """The real cluster, and the practice one; skips where the real one is of another version."""
    practice_version = _minor(practice_cluster)
    real_version = _minor(real_cluster)
    if practice_version != real_version:
        pytest.skip(
            f"the real cluster is of {real_version}, the practice cluster of {practice_version}"
        )
    return real_cluster, practice_cluster


def _minor(cluster: Cluster) -> str:
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    version = session.send("GET", "/version").body
    session.close()
    return f"{version['major']}.{version['minor']}"


@pytest.fixture
def proxy(cluster: Any) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(Session.connect(Connection(kubeconfig=str(cluster.kubeconfig))).server)
    yield proxy
    proxy.close()


@pytest.fixture
def cut_session(cluster: Any, namespace: str, proxy: CuttingProxy) -> Iterator[Session]:
    """A session whose connections can be cut."""
    session = Session.connect(
        Connection(
            kubeconfig=str(cluster.kubeconfig),
            namespace=namespace,
            server=proxy.url,
            insecure=True,  # the certificate need not be for the proxy's address
        )
    )
    yield session
    session.close()
