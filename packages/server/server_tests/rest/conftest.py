"""The REST server in process, over a cluster in memory."""

import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from kubectl_sky.cluster.connection import Connection
from kubectl_sky.words import kinds
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config, Limits
from kubectl_sky_server.rest.serve import Listener, uvicorn_config
from tests.actions.conftest import shorten_waits
from tests.fake_cluster import FakeCluster
from tests.polling import eventually

SECRET = "the-servers-own-token"
ALICE = "alice-token"
BOB = "bob-token"

HELLO = {"name": "hello", "run": "echo hello"}

Client = Callable[..., TestClient]


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


def submitted(client: TestClient, task: dict[str, Any] | None = None, **query: str) -> str:
    """Submit a task and return its id."""
    answer = client.post("/tasks/submit", json=task or HELLO, params=query)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["task_id"])


@contextmanager
def serving(config: Config) -> Iterator[tuple[int, FastAPI]]:
    """Serve on a loopback port for any Host; yield the port and the application."""
    app = create_app(replace(config, hosts=()))
    settings = uvicorn_config(app, Listener("127.0.0.1", 0))
    settings.timeout_keep_alive = 600  # a slow machine may do nothing for longer than the default
    server = uvicorn.Server(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        eventually(lambda: server.started)
        try:
            yield listener.getsockname()[1], app
        finally:
            server.should_exit = server.force_exit = True
            thread.join(60)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster in memory with the users alice, bob and the server's own."""
    shorten_waits(monkeypatch)
    fake = FakeCluster()
    fake.tokens = {ALICE: "alice", BOB: "bob", SECRET: "server"}
    fake.kinds.add(kinds.NAMESPACE)
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
