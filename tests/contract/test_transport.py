"""Requests and their time limit, without a server."""

from types import SimpleNamespace
from typing import NoReturn

import pytest
from urllib3.exceptions import ProtocolError

from kubectl_sky.cluster import objects, transport
from kubectl_sky.cluster.transport import Request
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import kinds
from tests.fake_cluster import FakeCluster


def test_request_after_its_time_limit_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller has gone on: a Job created now would be one that nobody knows of."""
    now, sent = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def answer(request: Request) -> NoReturn:
        sent.append(now)
        sleep(29)
        raise ProtocolError("Connection aborted.", ConnectionRefusedError())

    cluster = FakeCluster()
    cluster.answer = answer  # type: ignore[method-assign]
    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now)
    monkeypatch.setattr(transport, "time", clock)
    with pytest.raises(ClusterError, match="in time"):
        objects.get(cluster.session(), kinds.CONFIG_MAP, "a")
    assert len(sent) > 1
    assert max(sent) < 65
