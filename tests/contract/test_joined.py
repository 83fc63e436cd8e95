"""A request leaves in one piece, whatever it carries."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import urllib3

from kubectl_sky.cluster.joined import joined


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - as http.server names it

    def log_message(self, *_: object) -> None:
        pass


class Recorded:
    """A socket that counts what is sent."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.pieces: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.pieces.append(bytes(data))
        self.line.sendall(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.line, name)


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def recorded(manager: urllib3.PoolManager, url: str) -> Recorded:
    """Return the line of the only connection, which is open and idle."""
    pool = manager.connection_from_url(url)
    connection: Any = pool._get_conn()
    line = connection.sock = Recorded(connection.sock)
    pool._put_conn(connection)
    return line


@pytest.mark.parametrize("body", [None, b"", b"x", b"y" * 1_000_000])
def test_one_piece_a_request(url: str, body: bytes | None) -> None:
    manager = joined(urllib3.PoolManager(maxsize=1))
    assert manager.request("GET", url).status == 200
    line = recorded(manager, url)
    for _ in range(2):
        assert manager.request("POST", url, body=body).data == (body or b"")
    assert len(line.pieces) == 2
    assert all(piece.endswith(b"\r\n\r\n" + (body or b"")) for piece in line.pieces)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_the_head_comes_first_whatever_the_body_is(url: str, kind: type[Any]) -> None:
    manager = joined(urllib3.PoolManager(maxsize=1))
    assert manager.request("POST", url, body=kind(b"abc")).data == b"abc"


def test_a_long_body_is_not_kept(url: str) -> None:
    manager = joined(urllib3.PoolManager(maxsize=1))
    assert manager.request("GET", url).status == 200
    line = recorded(manager, url)
    parts = iter([b"a" * 10, b"b" * 10])
    answer = manager.request("POST", url, body=parts, headers={"Content-Length": "20"})
    assert answer.data == b"a" * 10 + b"b" * 10
    assert len(line.pieces) == 2


def test_connections_stay_what_they_are() -> None:
    class Pool(urllib3.HTTPSConnectionPool):
        class ConnectionCls(urllib3.connection.HTTPSConnection):
            pass

    manager = urllib3.PoolManager()
    manager.pool_classes_by_scheme = {"http": urllib3.HTTPConnectionPool, "https": Pool}
    pools: dict[str, Any] = joined(manager).pool_classes_by_scheme
    assert issubclass(pools["https"], Pool)
    assert issubclass(pools["https"].ConnectionCls, Pool.ConnectionCls)
    assert not issubclass(pools["http"].ConnectionCls, urllib3.connection.HTTPSConnection)
    usual = urllib3.PoolManager().pool_classes_by_scheme
    assert usual["http"] is urllib3.HTTPConnectionPool, "all others are left alone"


def test_after_a_request_that_could_not_be_sent(url: str) -> None:
    manager = joined(urllib3.PoolManager(maxsize=1))
    nothing: Any = object()
    with pytest.raises((TypeError, urllib3.exceptions.HTTPError)):
        manager.request("POST", url, body=nothing, retries=False)
    assert manager.request("POST", url, body=b"z").data == b"z"
