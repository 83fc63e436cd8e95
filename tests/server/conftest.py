"""The REST server in process, over a cluster in memory."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kubectl_sky.cluster.connection import Connection
from kubectl_sky.server.app import create_app
from kubectl_sky.server.config import Config, Limits
from tests.actions.conftest import shorten_waits
from tests.fake_cluster import FakeCluster

SECRET = "the-servers-own-token"
ALICE, BOB = "alice-token", "bob-token"

Client = Callable[..., TestClient]


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster in memory with the users alice, bob and the server's own."""
    shorten_waits(monkeypatch)
    fake = FakeCluster()
    fake.tokens = {ALICE: "alice", BOB: "bob", SECRET: "server"}
    fake.user = "system:anonymous"
    return fake


@pytest.fixture
def config(cluster: FakeCluster, tmp_path: Path) -> Config:
    """A server with credentials of its own, which callers must not get."""
    return Config(
        connection=Connection(token=SECRET),
        hosts=("testserver",),
        connect=cluster.session,
        limits=Limits(requests_per_second=1000),
        environ={"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)},
    )


@pytest.fixture
def client(config: Config) -> Iterator[Client]:
    """Return clients of the server; fields replace those of the configuration."""
    opened: list[TestClient] = []

    def connect(headers: Mapping[str, str] | None = None, **fields: object) -> TestClient:
        app = create_app(replace(config, **fields))  # type: ignore[arg-type]
        opened.append(TestClient(app, headers=dict(headers or {}), follow_redirects=False))
        return opened[-1]

    yield connect
    with warnings.catch_warnings():
        for item in opened:
            item.close()


@pytest.fixture
def alice(client: Client) -> TestClient:
    """A client with alice's token."""
    return client(bearer(ALICE))
