"""The practice cluster beside a real one of its version."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.practice import job_status
from tests.cluster.target import Cluster
from tests.practice.machine import Machine, machine
from tests.practice.world import World, settle


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
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def w(tmp_path: Path, anyio_backend: str) -> World:
    world = World(tmp_path)
    await settle()
    return world


@pytest.fixture
async def m(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Machine]:
    async with machine(tmp_path / "d") as new:
        yield new


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_status, "backoff", lambda *_: 0.0)
