"""The total time of a request, with servers that are slow but never silent."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from kubectl_sky.cluster import open_sockets, transport
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError

SECONDS = 1.0
PATH = "/api/v1/namespaces/default/pods"
Slow = Callable[[socket.socket], object]


def drip_body(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        client.sendall(b" ")
        time.sleep(0.1)


def drip_head(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nX-Header: ")
    while True:
        client.sendall(b"x")
        time.sleep(0.1)


def continue_for_ever(client: socket.socket) -> None:
    while True:
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.1)


def read_slowly(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    while client.recv(4096):
        time.sleep(0.1)


@contextmanager
def serving(slow: Slow) -> Iterator[str]:
    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client: socket.socket) -> None:
        with client, suppress(OSError):
            slow(client)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("slow", [drip_body, drip_head, continue_for_ever, read_slowly])
def test_request_to_slow_server_ends_in_time_without_a_thread(slow: Slow) -> None:
    body = {"data": "x" * 8_000_000} if slow is read_slowly else {}
    with serving(slow) as url:
        session = Session.connect(Connection(server=url, request_timeout=SECONDS))
        threads = set(threading.enumerate())
        started_at = time.monotonic()
        with pytest.raises(ClusterError, match=r"in time|lost the connection"):
            session.send("POST", PATH, body=body)
        assert time.monotonic() - started_at < 60, "the server never ends"
        started = {thread.name for thread in set(threading.enumerate()) - threads}
        assert all("(answer)" in name or "(serve)" in name for name in started)


def test_stream_outlives_the_time_of_a_request() -> None:
    def trickle(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for _ in range(4):
            time.sleep(1)
            client.sendall(b"line\n")

    with serving(trickle) as url:
        session = Session.connect(Connection(server=url, request_timeout=3))
        with session.stream(f"{PATH}/a/log", {}) as stream:
            assert b"".join(stream) == b"line\n" * 4


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"text": "a😀"}, b'{"text": "a\\ud83d\\ude00"}'),
        ('{"text":"a😀"}'.encode(), '{"text":"a😀"}'.encode()),
    ],
)
def test_body_is_encoded_once_unless_it_is_bytes(body: object, sent: bytes) -> None:
    received: list[bytes] = []

    def keep(client: socket.socket) -> None:
        data = client.recv(65536)
        while not data.endswith(b"}"):
            data += client.recv(65536)
        received.append(data)
        client.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )

    with serving(keep) as url:
        session = Session.connect(Connection(server=url, request_timeout=5))
        kind = "application/apply-patch+yaml" if isinstance(body, bytes) else "application/json"
        session.send("PATCH", PATH, body=body, headers={"Content-Type": kind})
    head, _, content = received[0].partition(b"\r\n\r\n")
    types = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-type:")]
    assert types == [f"Content-Type: {kind}".encode()]
    assert content == sent


def test_exit_wakes_threads_that_read_and_sends_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sockets = open_sockets.OpenSockets()
    monkeypatch.setattr(open_sockets, "OPEN", sockets)
    monkeypatch.setattr(transport, "OPEN", sockets)
    monkeypatch.setattr(open_sockets, "_EXIT_SECONDS", 60)

    def wait(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        time.sleep(60)

    with serving(wait) as url:
        session = Session.connect(Connection(server=url))
        with session.stream(f"{PATH}/a/log", {}) as stream:
            reader = threading.Thread(target=list, args=(stream,), daemon=True)
            reader.start()
            time.sleep(0.2)
            started_at = time.monotonic()
            sockets.close()
            assert time.monotonic() - started_at < 30
            reader.join(30)
            assert not reader.is_alive()
            with pytest.raises(ClusterError, match="lost the connection"):
                session.send("POST", PATH, body={})
