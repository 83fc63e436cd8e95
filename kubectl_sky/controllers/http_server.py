"""A small HTTP server, and with it the probes of the kubelet, and metrics.

It has few connections at once, and slow ones give way to new ones.
"""

import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from kubectl_sky.cluster import parallel
from kubectl_sky.controllers import metrics
from kubectl_sky.errors import UserError

PATH = "/healthz"
_MAX_CONNECTIONS = 64
_TEXT = "text/plain; charset=utf-8"
_IDLE_SECONDS = 10  # a connection may be silent


class Handler(BaseHTTPRequestHandler):
    """Answer one request of a connection with a line of text."""

    timeout = _IDLE_SECONDS
    server_version, sys_version = "kubectl-sky", ""

    def reply(self, status: int, text: str, kind: str = _TEXT) -> None:
        """Send a status and lines of text."""
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: anybody can send requests."""


class Server(ThreadingHTTPServer):
    """Serve in threads until `stop`.

    Beyond 64 connections, the oldest is closed.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, handler: type[Handler]) -> None:
        """Listen. Raises UserError if the port is in use."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._open = OrderedDict[Any, None]()
        self._lock = Lock()
        try:
            super().__init__((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise UserError(
                f"cannot listen on {host}, port {port}: {reason}", "choose another port"
            ) from None

    def start(self) -> None:
        """Serve in a thread."""
        parallel.run_daemon(self.serve_forever, 0.1, name="http")

    def stop(self) -> None:
        """Close the port."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Bind, without asking DNS for our name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Make room for a connection, and start its thread."""
        with self._lock:
            self._open[request] = None
            if len(self._open) > _MAX_CONNECTIONS:
                oldest, _ = self._open.popitem(last=False)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - a socket
        """Close a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Log nothing: the sender has gone."""


class _Health(Handler):
    metrics: Callable[[], str]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == PATH:
            self.reply(200, "ok")
        elif path == metrics.PATH:
            self.reply(200, type(self).metrics(), metrics.CONTENT_TYPE)
        else:
            self.reply(404, "not found")


@contextmanager
def serve_health(host: str, port: int | None, numbers: Callable[[], str]) -> Iterator[None]:
    """Serve PATH, and the text of metrics, on a port of an address; nothing without a port.

    Raises UserError if the port is in use.
    """
    if port is None:
        yield
        return
    handler = type("Health", (_Health,), {"metrics": staticmethod(numbers)})
    server = Server(host, port, handler)
    server.start()
    try:
        yield
    finally:
        server.stop()
