"""`kubectl exec` of disconnected and wrong clients; tests/contract has all that succeeds."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from practice_tests import process
from practice_tests.client import Client, until_released, usage_of
from practice_tests.machine import container
from practice_tests.polling import eventually
from practice_tests.process import Server

pytestmark = pytest.mark.practice

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with process.server() as started:
        spec = {"containers": [container("main", "echo up; sleep 1000")]}
        assert Client(started).ask("POST", PODS, {"metadata": {"name": "a"}, "spec": spec}) == 201
        eventually(lambda: _log(started).startswith(b"HTTP/1.1 200"))
        yield started


def _log(server: Server) -> bytes:
    client = Client(server)
    client.send("GET", f"{PODS}/a/log")
    line: bytes = client._file.readline()
    client.vanish()
    return line


def execute(server: Server, **query: object) -> connect:
    """Run a program asynchronously: threads of one client share an OpenSSL connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    address = server.url.replace("https", "wss")
    return connect(
        f"{address}{PODS}/a/exec?{urlencode(query, doseq=True)}",
        ssl=context,
        subprotocols=[Subprotocol("v5.channel.k8s.io")],
        additional_headers={"Authorization": f"Bearer {server.token}"},
        max_size=None,
    )


def test_exec_terminal_shows_all_output_of_short_program(server: Server) -> None:
    """Reading from a closed terminal is an error, which must not lose output."""

    async def story() -> bytes:
        output = b""
        async with execute(server, stdout=1, tty=1, command=["seq", "20000"]) as socket:
            async for message in socket:
                assert isinstance(message, bytes)
                output += message[1:] if message[0] == 1 else b""
        return output

    lines = asyncio.run(story()).splitlines()
    assert (len(lines), lines[-1]) == (20_000, b"20000")


def test_exec_disconnected_clients_release_files_and_threads(server: Server) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("this machine does not show a process's open files in /proc")

    async def vanish(**query: object) -> None:
        async with execute(server, stdin=1, stdout=1, **query) as socket:
            socket.transport.abort()

    before = usage_of(server)
    for script in ("sleep 1", "yes", "cat"):
        for terminal in (0, 1):
            asyncio.run(vanish(command=["sh", "-c", script], tty=terminal))
    until_released(server, before)
