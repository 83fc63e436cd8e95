"""For all tests: the practice cluster of a test, with or without processes."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from kubectl_sky_practice import job_status
from practice_tests.machine import Machine, machine
from practice_tests.world import World, settle

# A busy machine is no failure, and what CI tests is the same each time.
settings.register_profile("tests", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tests")


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
