"""A websocket with the API server: one thread reads it, any thread may write to it."""

import base64
import hashlib
import secrets
import selectors
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Lock
from time import monotonic
from typing import Self

import urllib3
from websocket import ABNF, WebSocket, WebSocketException

from kubectl_sky.cluster import failures
from kubectl_sky.cluster.call import Call
from kubectl_sky.errors import ClusterError, Unreachable

LARGEST = 64 * 1024  # bytes that one message should have; larger ones are no faster

_MOST = 4 << 20  # bytes of a message that is received; kubelets send 32 KiB
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
_TICK = 0.5  # seconds between two looks at whether to go on
_QUIET = 15.0  # seconds after which a ping keeps proxies from forgetting the connection
_SILENT = (  # a network that is gone is found out within a minute; not all systems have all
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 20),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 60_000),
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
)


class Upgrade:
    """The request that asks a server to go on as a websocket, and the check of its answer."""

    def __init__(self, protocols: Sequence[str]) -> None:
        self._protocols = protocols
        self._key = base64.b64encode(secrets.token_bytes(16)).decode()

    @property
    def headers(self) -> dict[str, str]:
        """The headers to send."""
        return {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": self._key,
            "Sec-WebSocket-Protocol": ",".join(self._protocols),
        }

    def accepted(self, response: urllib3.BaseHTTPResponse, call: Call) -> "Wire":
        """Return the websocket. Raises ClusterError where the answer is not one."""
        wanted = base64.b64encode(hashlib.sha1((self._key + _MAGIC).encode()).digest()).decode()
        line = getattr(response.connection, "sock", None)
        protocol = response.headers.get("Sec-WebSocket-Protocol", "")
        if (
            response.headers.get("Sec-WebSocket-Accept") != wanted
            or protocol not in self._protocols
        ):
            response.close()
            raise ClusterError(
                f"{call.host} does not go on with a websocket, as exec and port-forward need it",
                "check what stands between here and the API server: some proxies do not let it by",
            )
        if not isinstance(line, socket.socket):
            response.close()
            raise ClusterError(
                f"websockets to {call.host} do not go through a proxy that is reached by https",
                "use an http:// proxy",
            )
        return Wire(response, line, call, protocol)


class Wire:
    """Messages of bytes in both directions. Every method raises Unreachable for a lost line."""

    def __init__(
        self, response: urllib3.BaseHTTPResponse, line: socket.socket, call: Call, protocol: str
    ) -> None:
        self.protocol = protocol
        self._response = response  # owns the socket
        self._call = call
        self._framing = _Framing(line, _read_ahead(response, line))

    def send(self, data: bytes) -> None:
        """Send one message, as fast as it is taken."""
        try:
            self._framing.send(data, ABNF.OPCODE_BINARY)
        except (OSError, WebSocketException) as error:
            raise self._lost(error) from None

    def receive(self, stop: Event | None = None, until: float | None = None) -> bytes | None:
        """Return the next message; None when the server has hung up as one does.

        Raises TimeoutError when `stop` is set, or the monotonic clock has reached `until`.
        """
        self._framing.stop, self._framing.until = stop, until
        try:
            opcode, data = self._framing.recv_data()
        except TimeoutError:
            raise
        except (OSError, WebSocketException) as error:
            raise self._lost(error) from None
        return None if opcode == ABNF.OPCODE_CLOSE else data

    def hang_up(self) -> None:
        """End it for all threads; from any of them, and as often as one likes."""
        self._framing.hang_up()

    def close(self) -> None:
        """Hang up and let go of the socket; for the thread that receives."""
        self.hang_up()
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _lost(self, error: Exception) -> Unreachable:
        translated = failures.unreachable(self._call, urllib3.exceptions.ProtocolError(str(error)))
        return Unreachable(translated.what, translated.then)


class _Framing(WebSocket):
    """The library's frames over a socket whose two directions are served by different threads.

    OpenSSL wants one thread at a time, so the socket does not block, and a lock is held for the
    moment of each call only.
    """

    def __init__(self, line: socket.socket, ahead: bytes) -> None:
        super().__init__(skip_utf8_validation=True)
        for level, option, value in _SILENT:
            if hasattr(socket, option):
                with suppress(OSError):
                    line.setsockopt(level, getattr(socket, option), value)
        self.sock = line
        self.connected = True
        self.stop: Event | None = None
        self.until: float | None = None
        self._ahead = ahead
        self._turn = Lock()
        self._gone = False

    def hang_up(self) -> None:
        self._gone = True
        if self.sock:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)  # wakes those who wait

    def pong(self, payload: str | bytes = "") -> None:
        """Answer a ping, unless a message is being sent: its bytes say as much."""
        self._send_control(payload, ABNF.OPCODE_PONG)

    def ping(self, payload: str | bytes = "") -> None:
        self._send_control(payload, ABNF.OPCODE_PING)

    def _send_control(self, payload: str | bytes, opcode: int) -> None:
        if self.lock.acquire(blocking=False):
            try:
                self._send(ABNF.create_frame(payload, opcode).format())
            finally:
                self.lock.release()

    def _send(self, data: str | bytes) -> int:
        rest = memoryview(data if isinstance(data, bytes) else data.encode())
        while rest:
            waits = selectors.EVENT_WRITE
            try:
                with self._turn:
                    rest = rest[self._line().send(rest) :]
                continue
            except ssl.SSLWantReadError:
                waits = selectors.EVENT_READ
            except (ssl.SSLWantWriteError, BlockingIOError):
                pass
            self._wait(waits)
        return len(data)

    def _check_size(self) -> None:
        parts = self.cont_frame.cont_data
        if (self.frame_buffer.length or 0) + (len(parts[1]) if parts else 0) > _MOST:
            raise WebSocketException(f"a message of more than {_MOST >> 20} MiB")

    def _recv(self, bufsize: int) -> bytes:
        self._check_size()
        if self._ahead:
            found, self._ahead = self._ahead[:bufsize], self._ahead[bufsize:]
            return found
        quiet = monotonic()
        while True:
            waits = selectors.EVENT_READ
            try:
                with self._turn:
                    found = self._line().recv(bufsize)
                if not found:
                    raise ConnectionResetError("closed by the server")
                return found
            except ssl.SSLWantWriteError:
                waits = selectors.EVENT_WRITE
            except (ssl.SSLWantReadError, BlockingIOError):
                pass
            if not self._wait(waits) and monotonic() - quiet > _QUIET:
                quiet = monotonic()
                self.ping()
            if (self.stop and self.stop.is_set()) or (self.until and monotonic() > self.until):
                raise TimeoutError

    def _wait(self, event: int) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._line(), event)
            return bool(selector.select(_TICK))

    def _line(self) -> socket.socket:
        if self._gone or not self.sock:
            raise ConnectionAbortedError("hung up")
        return self.sock


def _read_ahead(response: urllib3.BaseHTTPResponse, line: socket.socket) -> bytes:
    """Return what came together with the headers, and was read with them."""
    line.setblocking(False)
    below = getattr(response, "_fp", None)
    with suppress(OSError):  # nothing has come: reading on would have to wait
        return bytes(below.peek() or b"") if below else b""
    return b""
