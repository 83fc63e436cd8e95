"""Many and disconnected clients leave no resources in the server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from practice_tests import process
from practice_tests.client import Client, until_released, usage_of
from practice_tests.process import Server

pytestmark = pytest.mark.practice

WATCHERS = 200
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not Path("/proc/self/fd").exists():
        pytest.skip("this machine does not show a process's open files in /proc")
    with process.server() as new:
        Client(new).ask("GET", MAPS)  # load everything that the first request needs
        time.sleep(0.5)
        yield new
        assert new.process.poll() is None


def test_many_watchers_release_files_and_threads(server: Server) -> None:
    before = usage_of(server)
    watchers = [Client(server) for _ in range(WATCHERS)]
    for watcher in watchers:
        watcher.send("GET", f"{MAPS}?watch=1")
    assert [watcher.code() for watcher in watchers] == [200] * WATCHERS
    assert usage_of(server).files > WATCHERS
    assert Client(server).ask("POST", MAPS, {"metadata": {"name": "seen"}}) == 201
    assert all(watcher.until(b'"seen"') for watcher in watchers)
    for watcher in watchers:
        watcher.vanish()
    until_released(server, before)


@pytest.mark.parametrize(
    "request_", [None, ("POST", MAPS, b'{"metadata":', 1_000_000), ("GET", MAPS, b"", 0)]
)
def test_disconnected_clients_release_files_and_threads(
    server: Server, request_: tuple[str, str, bytes, int] | None
) -> None:
    before = usage_of(server)
    for _ in range(50):
        client = Client(server)
        if request_:
            client.send(*request_)
        client.vanish()
    assert Client(server).ask("GET", MAPS) == 200
    until_released(server, before)


def test_request_too_large_is_refused_without_reading(server: Server) -> None:
    client = Client(server)
    client.send("POST", MAPS, b"{" + b" " * 3_200_000, length=1_000_000_000)
    assert client.code() == 413
    client.vanish()
    assert Client(server).ask("GET", MAPS) == 200
