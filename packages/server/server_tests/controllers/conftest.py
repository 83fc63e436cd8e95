"""Run a controller over a cluster in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kubectl_sky_server.controllers import loop as loops
from kubectl_sky_server.controllers.loop import Controller, Loop
from tests.actions.conftest import Submitter, shorten_waits
from tests.fake_cluster import FakeCluster

C = TypeVar("C", bound=Controller[Any])


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    shorten_waits(monkeypatch)
    monkeypatch.setattr(loops, "_FIRST_RETRY_SECONDS", 0.05)
    return FakeCluster()


@pytest.fixture
def send(api: FakeCluster, tmp_path: Path) -> Submitter:
    return Submitter(api, tmp_path)


@contextmanager
def running(api: FakeCluster, controller: C) -> Iterator[C]:
    loop = Loop(controller, api.session(), "default")
    loop.start()
    try:
        yield controller
    finally:
        loop.stop()
        loop.join(60)
