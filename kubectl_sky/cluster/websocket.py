"""A WebSocket to the API server: one thread receives, any thread may send.

The connection uses the settings of the urllib3 pool. The `websockets` package implements the
protocol and limits message sizes.
"""

import logging
import selectors
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from math import inf
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.util import parse_url
from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from kubectl_sky.cluster.errors import RequestInfo, unreachable
from kubectl_sky.cluster.session import Outgoing, Query, Session
from kubectl_sky.cluster.transport import Attempt, Reply, Request, remaining
from kubectl_sky.errors import ClusterError, Unreachable

if TYPE_CHECKING:
    from kubectl_sky.cluster.client import Client

MAX_SEND_BYTES = 64 * 1024  # bytes to send in one message; larger messages are not faster

_MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # bytes to receive in one message; kubelets send 32 KiB
_RECEIVE_BYTES = 64 * 1024
_POLL_INTERVAL = 0.5  # seconds between two checks of the stop conditions
_PING_AFTER_SECONDS = 15.0  # seconds of silence; proxies drop idle connections
_KEEPALIVE = (  # detects a dead network within a minute; not all systems support all options
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 20),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 60_000),
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
)
_LOGGER = logging.getLogger(__name__)
_LOGGER.disabled = True  # errors are raised here, not logged
_TLS = ("cert_file", "key_file", "key_password", "cert_reqs", "ca_certs", "assert_hostname")


def connect(session: Session, path: str, query: Query, protocols: Sequence[str]) -> "WebSocket":
    """Open a WebSocket with one of the subprotocols. Raises ClusterError."""
    info = RequestInfo("GET", path, session.server)
    outgoing = Outgoing(info, query, {}, streamed=True, repeatable=False)
    reply = session.open(outgoing, handshake(info, protocols))
    return WebSocket(reply.stream, info)


def handshake(info: RequestInfo, protocols: Sequence[str]) -> Attempt:
    """Return the exchange that opens a WebSocket; the stream of its answer is for `WebSocket`."""
    return partial(_handshake, info, protocols)


class _Connection:
    """A non-blocking socket and its `websockets` protocol state, shared by threads.

    OpenSSL allows one thread at a time, so each call holds a lock, but never while waiting.
    """

    def __init__(self, sock: socket.socket, protocol: ClientProtocol, deadline: float) -> None:
        for level, option, value in _KEEPALIVE:
            if hasattr(socket, option):
                with suppress(OSError):
                    sock.setsockopt(level, getattr(socket, option), value)
        sock.setblocking(False)
        self.protocol = protocol
        self.sock = sock
        self.deadline = deadline  # of the handshake
        self.handshake_events: list[Any] = []  # events received with the handshake response
        self.lock = Lock()
        self.sending = Lock()
        self.ended = False  # by the server
        self.closed = False

    def receive(self) -> list[Any] | None:
        """Receive data and return its events; None if no data arrived for a while.

        Raises OSError; ConnectionResetError after the end of the stream.
        """
        waits = selectors.EVENT_READ
        try:
            with self.lock:
                data = self._open_socket().recv(_RECEIVE_BYTES)
                if data:
                    self.protocol.receive_data(data)
                elif self.ended:
                    raise ConnectionResetError("closed by the server")
                else:
                    self.ended = True
                    self.protocol.receive_eof()
                return self.protocol.events_received()
        except ssl.SSLWantWriteError:
            waits = selectors.EVENT_WRITE
        except (ssl.SSLWantReadError, BlockingIOError):
            pass

        return [] if self._wait(waits) else None

    def flush(self) -> None:
        """Send the protocol's pending data; the caller holds `sending`."""
        while True:
            with self.lock:
                remaining = memoryview(b"".join(self.protocol.data_to_send()))
            if not remaining:
                return
            while remaining:
                remaining = remaining[self._send(remaining) :]

    def flush_if_idle(self) -> None:
        """Send pending pings and pongs, unless a running send includes them."""
        if self.sending.acquire(blocking=False):
            try:
                self.flush()
            finally:
                self.sending.release()

    def hang_up(self) -> None:
        self.closed = True
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes waiting threads

    def _send(self, data: memoryview) -> int:
        waits = selectors.EVENT_WRITE
        try:
            with self.lock:
                return self._open_socket().send(data)
        except ssl.SSLWantReadError:
            waits = selectors.EVENT_READ
        except (ssl.SSLWantWriteError, BlockingIOError):
            pass
        self._wait(waits)
        return 0

    def _wait(self, waits: int) -> bool:
        remaining(self.deadline)
        with selectors.DefaultSelector() as selector:
            selector.register(self._open_socket(), waits)
            return bool(selector.select(_POLL_INTERVAL))

    def _open_socket(self) -> socket.socket:
        if self.closed or self.sock.fileno() < 0:
            raise ConnectionAbortedError("hung up")
        return self.sock


class WebSocket:
    """Binary messages both ways. Methods raise Unreachable on a lost connection."""

    def __init__(self, connection: _Connection, info: RequestInfo) -> None:
        self._connection = connection
        self._info = info
        self._messages: deque[bytes] = deque()
        self._parts: list[bytes] = []  # frames of an incomplete message
        self._closed = False
        self._process(connection.handshake_events)

    @property
    def protocol(self) -> str:
        return str(self._connection.protocol.subprotocol)

    def send(self, data: bytes) -> None:
        """Send one message; blocks until the server has read enough."""
        connection = self._connection
        try:
            with connection.sending:
                with connection.lock:
                    connection.protocol.send_binary(data)
                connection.flush()
        except (OSError, WebSocketException) as error:
            raise self._unreachable(error) from None

    def receive(self, stop: Event | None = None, until: float | None = None) -> bytes | None:
        """Return the next message; None if the server has closed the WebSocket.

        Raises TimeoutError when `stop` is set, or at the monotonic time `until`.
        """
        quiet_since = monotonic()

        while not self._messages:
            if self._closed:
                return None
            try:
                events = self._receive_events()
                if events is not None:
                    quiet_since = monotonic()
                    self._process(events)
                elif monotonic() - quiet_since > _PING_AFTER_SECONDS:
                    quiet_since = monotonic()
                    with self._connection.lock:
                        self._connection.protocol.send_ping(b"")
                self._connection.flush_if_idle()
            except (OSError, WebSocketException) as error:
                if not (self._messages or self._closed):
                    raise self._unreachable(error) from None

            if (stop and stop.is_set()) or (until and monotonic() > until):
                raise TimeoutError

        return self._messages.popleft()

    def hang_up(self) -> None:
        """Disconnect for all threads; any thread may call it, more than once."""
        self._connection.hang_up()

    def close(self) -> None:
        """Disconnect and close the socket; only the receiving thread may call it."""
        self.hang_up()
        self._connection.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _receive_events(self) -> list[Any] | None:
        error = self._connection.protocol.parser_exc
        if error and not isinstance(error, EOFError):
            raise ClusterError(
                f"{self._info.host} breaks the WebSocket protocol: {type(error).__name__}",
                "a proxy between you and the API server may be changing the data",
            )
        return self._connection.receive()

    def _process(self, events: Sequence[Any]) -> None:
        for frame in events:
            if not isinstance(frame, Frame):
                continue
            if frame.opcode is Opcode.CLOSE:
                self._closed = True
            elif frame.opcode in DATA_OPCODES:
                self._parts.append(bytes(frame.data))
                if frame.fin:
                    self._messages.append(b"".join(self._parts))
                    self._parts = []

    def _unreachable(self, error: Exception) -> Unreachable:
        translated = unreachable(self._info, urllib3.exceptions.ProtocolError(str(error)))
        return Unreachable(translated.what, translated.hint)


def _handshake(
    info: RequestInfo, protocols: Sequence[str], client: "Client", request: Request
) -> Reply:
    """Request the WebSocket upgrade; return the connection or the server's refusal."""
    url = parse_url(request.url)
    secure = url.scheme == "https"
    host = (url.host or "").strip("[]")
    port = url.port or (443 if secure else 80)

    protocol = ClientProtocol(
        WebSocketURI(secure, host, port, url.path or "/", url.query or ""),
        subprotocols=[Subprotocol(name) for name in protocols],
        max_size=_MAX_MESSAGE_BYTES,
        logger=_LOGGER,
    )
    handshake = protocol.connect()
    for name, value in request.headers.iteritems():
        handshake.headers[name] = value
    protocol.send_request(handshake)

    sock = _dial(info, client.pool_manager, request)
    connection = _Connection(sock, protocol, request.deadline)
    response = None
    try:
        response = _response(connection)
        connection.deadline = inf
        if response and response.status_code == 101 and protocol.subprotocol:
            return Reply(101, _headers(response), b"", connection)
    finally:
        if not (response and response.status_code == 101 and protocol.subprotocol):
            connection.sock.close()

    if response and response.status_code >= 300:
        return Reply(response.status_code, _headers(response), bytes(response.body or b""))
    raise ClusterError(
        f"{info.host} does not switch to a WebSocket, which exec and port-forward need",
        "a proxy between you and the API server may be blocking WebSocket upgrades",
    )


def _headers(response: Response) -> urllib3.HTTPHeaderDict:
    return urllib3.HTTPHeaderDict(response.headers.raw_items())


def _response(connection: _Connection) -> Response | None:
    """Return the handshake response; None if it is invalid HTTP or too large."""
    with connection.sending:
        connection.flush()
    while True:
        remaining(connection.deadline)
        events = connection.receive()
        if events:
            response, *connection.handshake_events = events
            accepted = connection.protocol.handshake_exc is None or response.status_code != 101
            return response if accepted else None
        if connection.protocol.handshake_exc:
            return None


def _dial(info: RequestInfo, manager: urllib3.PoolManager, request: Request) -> socket.socket:
    """Connect with the pool's certificates and proxy. Raises HTTPError."""
    url = parse_url(request.url)
    host = url.host or ""
    secure = url.scheme == "https"
    pool = manager.connection_from_host(host, url.port, url.scheme)
    address = pool.proxy or pool
    seconds = min(request.connect, remaining(request.deadline))
    tls = {name: getattr(pool, name) for name in _TLS if secure}

    connection = pool.ConnectionCls(
        host=address.host or "", port=address.port, timeout=seconds, **tls, **pool.conn_kw
    )
    assert isinstance(connection, HTTPConnection)

    if pool.proxy:
        scheme = pool.proxy.scheme or "http"
        connection.set_tunnel(host, url.port, scheme=scheme, headers=pool.proxy_headers)

    with ExitStack() as opened:
        opened.callback(connection.close)
        _connect(connection, pool)
        if not isinstance(connection.sock, socket.socket):
            raise ClusterError(
                f"WebSockets to {info.host} do not work through a proxy with an https:// address",
                "use an http:// proxy",
            )
        opened.pop_all()
    return connection.sock


def _connect(connection: HTTPConnection, pool: urllib3.HTTPConnectionPool) -> None:
    """Connect, with the errors of a pool. Raises HTTPError, OSError."""
    try:
        connection.connect()
    except (ssl.SSLError, ssl.CertificateError) as error:
        raise urllib3.exceptions.SSLError(error) from None
    except OSError as error:
        if not pool.proxy:
            raise
        if isinstance(error, TimeoutError):
            raise urllib3.exceptions.ReadTimeoutError(pool, pool.proxy.url, "timed out") from None
        raise urllib3.exceptions.ProxyError("the tunnel failed", error) from None
