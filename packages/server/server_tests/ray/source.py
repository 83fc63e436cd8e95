"""A source of graphs on loopback that answers as a test wants."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class GraphSource:
    """What the server answers; `mode` is a status, or the name of a misbehaviour."""

    data: bytes = b""
    token: str = "secret-token"
    mode: int | str = 200
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # path, token, ETag
    sent: int = 0  # bytes of the last body
    port: int = 0
    listener: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/graphs/fruit"


@contextmanager
def serving() -> Iterator[GraphSource]:
    source = GraphSource()

    class Handler(_Handler):
        graphs = source

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    source.port = server.server_port
    source.listener = server
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield source
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    graphs: GraphSource
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        source = self.graphs
        token = self.headers.get("Authorization", "")
        source.requests.append((self.path, token, self.headers.get("If-None-Match", "")))
        self.close_connection = True
        try:
            if source.token and token != f"Bearer {source.token}":
                self.answer(401, b"no: " + token.encode())
            elif isinstance(source.mode, int):
                self.usual(source.mode)
            else:
                getattr(self, source.mode)()
        except OSError:
            return  # the client went away

    def usual(self, status: int) -> None:
        etag = f'"{hash(self.graphs.data)}"'
        if status == 200 and self.headers.get("If-None-Match") == etag:
            self.answer(304)
        elif status == 200:
            self.answer(200, self.graphs.data, ETag=etag)
        else:
            self.answer(status, b"server says: secret-token", Location="http://127.0.0.1:1/")

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def truncated(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.graphs.data) + 10))
        self.end_headers()
        self.wfile.write(self.graphs.data)

    def without_length(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.graphs.data)

    def compressed(self) -> None:
        self.answer(200, self.graphs.data, **{"Content-Encoding": "gzip"})

    def dripping(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.graphs.data)))
        self.end_headers()
        for byte in self.graphs.data:
            self.wfile.write(bytes([byte]))
            time.sleep(0.3)

    def dripping_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(1000):
            self.wfile.write(b"X-%d: x\r\n" % number)
            time.sleep(0.3)

    def large(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(2**30))
        self.end_headers()
        self.endless()

    def large_chunked(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.endless(b"10000\r\n%b\r\n")

    def endless(self, frame: bytes = b"%b") -> None:
        for number in range(2**14):
            self.graphs.sent = number * 65536
            self.wfile.write(frame % bytes(65536))

    def garbage(self) -> None:
        self.wfile.write(b"\x00\x01secret-token\r\n\r\n")

    def silent(self) -> None:
        time.sleep(60)
