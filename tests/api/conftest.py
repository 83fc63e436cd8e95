"""The Python API over a cluster in memory, which must not print anything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_sky import Client
from kubectl_sky.cluster.session import Session
from tests.actions.conftest import shorten_waits
from tests.fake_cluster import FakeCluster


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    """A cluster in memory that every client connects to, and a home of the test alone."""
    shorten_waits(monkeypatch)
    cluster = FakeCluster()
    monkeypatch.setattr(Session, "connect", cluster.session)
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"KUBECTL_SKY_{kind}_HOME", str(tmp_path / kind))
    return cluster


@pytest.fixture
def client(api: FakeCluster) -> Client:
    """A client of it."""
    return Client()


@pytest.fixture(autouse=True)
def _prints_nothing(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capfd.readouterr() == ("", "")
