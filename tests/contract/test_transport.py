"""Requests and their time limit, without a server."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import NoReturn

import pytest
from urllib3.exceptions import ProtocolError

from kubectl_sky.cluster import objects, transport
from kubectl_sky.cluster.transport import Attempts, Request
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import kinds
from tests.contract.makers import make_config_map
from tests.fake_cluster import FakeCluster

CONFIG_MAP = make_config_map("a", "default")


def test_request_after_its_time_limit_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller has gone on: a Job created now would be one that nobody knows of."""
    now = 0.0
    sent = list[float]()

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


@pytest.mark.parametrize(
    ("request_name", "statuses", "sent"),
    [
        ("get configmaps", (500, 502, 503, 504), 5),
        ("patch configmaps", (502, 503, 504), 4),
        ("delete configmaps", (502, 503, 504), 4),
        ("patch configmaps", (500,), 1),  # the answer to an apply with an unknown field
        ("create configmaps", (429,), 2),
        ("create configmaps", (503,), 1),
        ("get configmaps", (503,) * 20, 6),
    ],
)
def test_request_refused_for_a_moment_is_retried_if_that_is_safe(
    monkeypatch: pytest.MonkeyPatch, request_name: str, statuses: tuple[int, ...], sent: int
) -> None:
    monkeypatch.setattr(Attempts, "pause", lambda *_: None)
    cluster = FakeCluster()
    session = cluster.session().impatient()
    if not request_name.startswith("create"):
        objects.create(session, CONFIG_MAP)
    for nth, status in enumerate(statuses, 1):
        cluster.before(request_name, partial(int, status), nth)
    requests: dict[str, Callable[[], object]] = {
        "get": lambda: objects.get(session, kinds.CONFIG_MAP, "a"),
        "patch": lambda: objects.patch(session, kinds.CONFIG_MAP, "a", None, {}),
        "delete": lambda: objects.delete(session, kinds.CONFIG_MAP, "a"),
        "create": lambda: objects.create(session, CONFIG_MAP),
    }

    with suppress(ClusterError):
        requests[request_name.partition(" ")[0]]()
    assert cluster.count(request_name) == sent
