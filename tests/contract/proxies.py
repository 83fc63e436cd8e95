"""Loopback proxies between a session and the real API server: one is a bad network, one refuses."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Conflict, NotServed


class CuttingProxy:
    """Forwards TCP to the API server, and breaks its connections when told.

    With `budget` each connection breaks after so many bytes of answers, but no more than `cuts`
    connections in all; `politely` it ends there as if that were all. `delay` is seconds that each
    piece of an answer takes longer.
    """

    def __init__(self, server: str) -> None:
        self.lead_to(server)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._frozen: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.delay = 0.0
        self.politely = False
        self.budget: int | None = None
        self.cuts = 0
        self.refusing = False
        self.accepted = 0
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def lead_to(self, server: str) -> None:
        """Forward new connections to a server."""
        parts = urlsplit(server)
        self._target = (parts.hostname or "", parts.port or 443)

    def cut(self) -> None:
        """Break every connection that is open now."""
        with self._lock:
            pairs = self._pairs
            self._pairs = []
        for pair in pairs:
            for line in pair:
                _reset(line)

    def leave(self, seconds: float) -> None:
        """Be away for a while: break every connection, and accept none."""
        self.refusing = True
        self.cut()

        def come_back() -> None:
            time.sleep(seconds)
            self.refusing = False

        self._start(come_back)

    def freeze(self) -> None:
        """Let nothing through any connection that is open now, and do not end it either."""
        with self._lock:
            self._frozen |= {line for pair in self._pairs for line in pair}

    def close(self) -> None:
        self._frozen.clear()
        # closing alone would leave the accepting thread asleep
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _start(self, work: object, *args: object) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return

            self.accepted += 1
            if self.refusing:
                _reset(client)
                continue

            try:
                server = socket.create_connection(self._target)
            except OSError:
                _reset(client)
                continue

            with self._lock:
                self._pairs.append((client, server))
            self._start(self._pump, client, server, False)
            self._start(self._pump, server, client, True)

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                while source in self._frozen:
                    time.sleep(0.05)
                time.sleep(self.delay if answers else 0)
                sink.sendall(data)
                passed += len(data)
                if answers and self.budget and passed > self.budget and self.cuts > 0:
                    self.cuts -= 1
                    if self.politely:
                        sink.shutdown(socket.SHUT_RDWR)
                    break

        _reset(source)
        _reset(sink)


def _refusal(error: ClusterError, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return the answer of an API server that refuses a request so."""
    code, reason = (409, "AlreadyExists") if isinstance(error, Conflict) else (404, "NotFound")
    status: dict[str, object] = {"kind": "Status", "reason": reason, "code": code}
    if not isinstance(error, NotServed):
        status["details"] = {"name": path.rpartition("/")[2]}
    return code, {}, json.dumps(status).encode()


def _reset(line: socket.socket) -> None:
    """Close with RST, as a broken network or a killed server does."""
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.shutdown(socket.SHUT_RDWR)
    line.close()


class FrontProxy:
    """An HTTP server before the API server that refuses the first requests and forwards the rest.

    `refusals` are pairs of status and headers, used up one a request. Until `written`, by the
    monotonic clock, logs lack their second half.
    """

    def __init__(self, direct: Session, refusals: Sequence[tuple[int, dict[str, str]]]) -> None:
        self.refusals = list(refusals)
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.written = 0.0
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                front.seen.append((self.command, self.path))
                front.headers.append(dict(self.headers.items()))
                if front.refusals:
                    status, headers = front.refusals.pop(0)
                    self._answer(status, headers, b"{}")
                else:
                    self._answer(*front.forward(direct, self, body))

            do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *gone: None  # type: ignore[method-assign]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def forward(
        self, direct: Session, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        path = urlsplit(request.path)
        try:
            if path.path.endswith("/log"):
                return (
                    200,
                    {"Content-Type": "text/plain"},
                    self._log(direct, path.path, dict(parse_qsl(path.query))),
                )
            sent = json.loads(body) if body else None
            answer = direct.send(
                request.command,
                path.path,
                query=dict(parse_qsl(path.query)),
                body=sent,
                headers={"Content-Type": request.headers.get("Content-Type", "")},
            )
        except ClusterError as error:
            return _refusal(error, path.path)

        return answer.status, {}, json.dumps(answer.body).encode()

    def _log(self, direct: Session, path: str, query: dict[str, str]) -> bytes:
        half = time.monotonic() < self.written
        tail = int(query.pop("tailLines", 0)) if half else 0
        with direct.stream(path, query) as stream:
            lines = b"".join(stream).splitlines(keepends=True)
        return b"".join(lines[: len(lines) // 2][-tail:] if half else lines)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
