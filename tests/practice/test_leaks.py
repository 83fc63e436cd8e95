"""Many, slow and disconnected clients leave no resources in the server."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cluster import practice
from tests.cluster.practice import Server
from tests.practice.client import Client, until_released, usage_of

pytestmark = pytest.mark.practice

WATCHERS = 200
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not Path("/proc/self/fd").exists():
        pytest.skip("this machine does not show a process's open files in /proc")
    with practice.server() as new:
        Client(new).ask("GET", MAPS)  # load everything that the first request needs
        time.sleep(0.5)
        yield new
        assert new.process.poll() is None


def config_map(name: str, size: int = 1) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"x": "x" * size}}


def test_many_watchers_release_files_and_threads(server: Server) -> None:
    before = usage_of(server)
    watchers = [Client(server) for _ in range(WATCHERS)]
    for watcher in watchers:
        watcher.send("GET", f"{MAPS}?watch=1")
    assert [watcher.code() for watcher in watchers] == [200] * WATCHERS
    assert usage_of(server).files > WATCHERS
    assert Client(server).ask("POST", MAPS, config_map("seen")) == 201
    assert all(watcher.until(b'"seen"') for watcher in watchers)
    for watcher in watchers:
        watcher.vanish()
    until_released(server, before)


def vanish_while_sending(server: Server) -> None:
    client = Client(server)
    client.send("POST", MAPS, b'{"metadata":', length=1_000_000)
    client.vanish()


def vanish_before_the_answer(server: Server) -> None:
    client = Client(server)
    client.send("GET", MAPS)
    client.vanish()


def vanish_while_watching(server: Server) -> None:
    client = Client(server)
    client.send("GET", f"{MAPS}?watch=1")
    assert client.code() == 200
    client.vanish()


def vanish_after_connecting(server: Server) -> None:
    Client(server).vanish()


def vanish_without_encryption(server: Server) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port or 443)) as line:
        line.sendall(b"GET / HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    "leave",
    [
        vanish_while_sending,
        vanish_before_the_answer,
        vanish_while_watching,
        vanish_after_connecting,
        vanish_without_encryption,
    ],
)
def test_disconnected_clients_release_files_and_threads(
    server: Server, leave: Callable[[Server], None]
) -> None:
    before = usage_of(server)
    for _ in range(50):
        leave(server)
    assert Client(server).ask("GET", MAPS) == 200
    until_released(server, before)


def test_slow_readers_block_no_client_and_use_bounded_memory(server: Server) -> None:
    """A client that does not read blocks no other client and fills no memory."""
    before = usage_of(server)
    slow = [Client(server) for _ in range(10)]
    for client in slow:
        client.send("GET", f"{MAPS}?watch=1")
    memory = resident(server)
    for number in range(100):
        started = time.monotonic()
        assert Client(server).ask("POST", MAPS, config_map(f"big{number}", 200_000)) == 201
        assert time.monotonic() - started < 20
    grown = resident(server) - memory
    assert grown < 150, f"{grown} MB for 20 MB of objects"
    for client in slow:
        client.vanish()
    assert Client(server).ask("DELETE", MAPS) == 200
    until_released(server, before)


def resident(server: Server) -> float:
    """Return the resident memory in MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return float(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_request_too_large_is_refused_without_reading(server: Server) -> None:
    before = usage_of(server)
    client = Client(server)
    client.send("POST", MAPS, b"{" + b" " * 3_200_000, length=1_000_000_000)
    assert client.code() == 413
    client.vanish()
    assert Client(server).ask("GET", MAPS) == 200
    until_released(server, before)
