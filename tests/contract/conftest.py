"""Sessions with the test cluster, straight and through a proxy that cuts connections."""

from collections.abc import Iterator
from typing import Any

import pytest

from kubectl_sky.cluster.session import Connection, Session
from tests.contract.proxies import CuttingProxy


@pytest.fixture
def session(cluster: Any, namespace: str) -> Iterator[Session]:
    found = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig), namespace=namespace))
    yield found
    found.close()


@pytest.fixture
def proxy(session: Session) -> Iterator[CuttingProxy]:
    found = CuttingProxy(session.server)
    yield found
    found.close()


@pytest.fixture
def cut_session(cluster: Any, namespace: str, proxy: CuttingProxy) -> Iterator[Session]:
    """A session whose connections can be cut."""
    found = Session.connect(
        Connection(
            kubeconfig=str(cluster.kubeconfig),
            namespace=namespace,
            server=proxy.url,
            insecure=True,  # the certificate need not be for the proxy's address
        )
    )
    yield found
    found.close()
