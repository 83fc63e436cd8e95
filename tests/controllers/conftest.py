"""Run a controller over a cluster in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kubectl_sky.controllers.loop import Controller, Loop
from tests.fake_cluster import FakeCluster

C = TypeVar("C", bound=Controller[Any])


@contextmanager
def running(api: FakeCluster, controller: C) -> Iterator[C]:
    loop = Loop(controller, api.session(), "default")
    loop.start()
    try:
        yield controller
    finally:
        loop.stop()
        loop.join(60)
