"""Requests and their time limit, without a server."""

import time
from typing import NoReturn, cast

import pytest
import urllib3
from urllib3.exceptions import ProtocolError

from kubectl_sky.cluster import transport
from kubectl_sky.cluster.client import Client
from kubectl_sky.cluster.transport import Request, Retries

CLIENT = cast(Client, None)  # these attempts send nothing
URL = "https://127.0.0.1/api/v1/namespaces/default/pods"


def test_request_after_its_time_limit_is_not_sent_again() -> None:
    """Its caller has gone on: a Job created now would be one that nobody knows of."""
    sent: list[float] = []

    def attempt(client: Client, request: Request) -> NoReturn:
        sent.append(time.monotonic())
        raise ProtocolError("Connection aborted.", ConnectionRefusedError())

    headers = urllib3.HTTPHeaderDict()
    request = Request("GET", URL, headers, None, 1, 1, seconds=0.1, retries=Retries.standard())
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        transport.exchange(CLIENT, request, attempt)
    time.sleep(1.5)
    assert max(sent) - begun < 0.3
