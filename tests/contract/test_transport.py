"""Requests and their time limit, without a server."""

from types import SimpleNamespace
from typing import NoReturn, cast

import pytest
import urllib3
from urllib3.exceptions import ProtocolError

from kubectl_sky.cluster import deadlines, transport
from kubectl_sky.cluster.client import Client
from kubectl_sky.cluster.transport import Request, Retries

CLIENT = cast(Client, None)  # these attempts send nothing
URL = "https://127.0.0.1/api/v1/namespaces/default/pods"


def test_request_after_its_time_limit_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller has gone on: a Job created now would be one that nobody knows of."""
    now, sent = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def attempt(client: Client, request: Request) -> NoReturn:
        sent.append(now)
        sleep(0.04)
        raise ProtocolError("Connection aborted.", ConnectionRefusedError())

    headers = urllib3.HTTPHeaderDict()
    request = Request("GET", URL, headers, None, 1, 1, seconds=0.1, retries=Retries.standard())
    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now)
    monkeypatch.setattr(transport, "time", clock)
    monkeypatch.setattr(deadlines, "monotonic", clock.monotonic)
    with pytest.raises(TimeoutError):
        transport.exchange(CLIENT, request, attempt)
    assert len(sent) > 1
    assert max(sent) < 0.1
