"""Forward local ports to pods like `kubectl port-forward`, across pod restarts.

Each connection has its own WebSocket to the pod that exists when the connection is made.
"""

import selectors
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import kubelets, objects, parallel
from kubectl_sky.cluster.backoff import Backoff
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.websocket import WebSocket, connect
from kubectl_sky.errors import ClusterError, Forbidden, KubeletUnreachable, SkyError, UserError
from kubectl_sky.words import bounded, kinds

PROTOCOLS = ("v4.channel.k8s.io",)

_DATA_CHANNEL = 0
_ERROR_CHANNEL = 1
_BLOCK_BYTES = 32 * 1024
_POLL_INTERVAL = 0.5
_MAX_ERROR_BYTES = 1000  # bytes shown of an error
_BACKLOG = 128  # pending connections (backlog)
_CLOSE_AFTER_SECONDS = 10.0  # of silence, when the client has stopped sending
_POD_TIMEOUT_SECONDS = 60.0  # seconds that a connection waits for a pod to restart
_LOCALHOST = ("127.0.0.1", "::1")


class PortPair(Struct, frozen=True):
    """A local port (0 for any free port) and a port in the pod."""

    local: int
    remote: int


class PodTarget(Struct, frozen=True):
    """Return namespace and pod for each new connection; a SkyError stops forwarding."""

    pod: Callable[[], tuple[str, str] | None]  # None while no pod exists
    note: Callable[[str], None]


class Forwarder:
    """Listen on local ports and forward each connection to a pod's port."""

    def __init__(self, session: Session, target: PodTarget) -> None:
        self._session = session
        self._target = target
        self._stop = Event()
        self._lock = Lock()
        self._error: SkyError | None = None
        self._open: dict[socket.socket, WebSocket | None] = {}
        self._listeners: list[tuple[socket.socket, int]] = []

    def listen(self, addresses: Sequence[str], pair: PortPair) -> Iterator[str]:
        """Listen on a local port and yield each `address:port`. Raises UserError."""
        addresses_to_bind = [address for name in addresses for address in _resolve_addresses(name)]
        local = pair.local
        failures = []

        for name in addresses_to_bind:
            try:
                family = socket.AF_INET6 if ":" in name else socket.AF_INET
                listener = socket.create_server((name, local), family=family, backlog=_BACKLOG)
            except OSError as error:
                failures.append((name, error))
                continue
            local = listener.getsockname()[1]  # the same for all addresses
            self._listeners.append((listener, pair.remote))
            yield f"[{name}]:{local}" if ":" in name else f"{name}:{local}"

        optional = "localhost" in addresses and len(failures) < len(addresses_to_bind)
        if failures and not (optional and failures[0][0] == _LOCALHOST[1]):
            name, failed = failures[0]
            raise UserError(
                f"cannot listen on {name} port {pair.local}: {bounded.reason(failed)}",
                f"choose another port: :{pair.remote} picks a free port",
            )

    def serve(self) -> None:
        """Serve until interrupted. Raises the SkyError that makes the pod unreachable."""
        try:
            with selectors.DefaultSelector() as selector:
                for listener, remote in self._listeners:
                    selector.register(listener, selectors.EVENT_READ, remote)
                while not self._stop.is_set():
                    for key, _ in selector.select(_POLL_INTERVAL):
                        self._accept(key.fileobj, key.data)
        finally:
            self.close()
        if self._error:
            raise self._error

    def close(self) -> None:
        self._stop.set()
        for listener, _ in self._listeners:
            listener.close()
        with self._lock:
            connections = list(self._open.items())
        for client, websocket in connections:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            if websocket:
                websocket.hang_up()

    def _accept(self, listener: object, remote: int) -> None:
        assert isinstance(listener, socket.socket)
        try:
            client, _address = listener.accept()
        except OSError:  # the client has disconnected
            return
        local = listener.getsockname()[1]
        self._target.note(f"Handling connection for {local}")
        with self._lock:
            self._open[client] = None
        parallel.run_daemon(self._serve_client, client, remote, name="port-forward")

    def _serve_client(self, client: socket.socket, remote: int) -> None:
        try:
            with client, self._dial(remote) as websocket:
                with self._lock:
                    self._open[client] = websocket
                message = _copy_both_ways(client, websocket)
            if message and not self._stop.is_set():
                self._target.note(message)
        except ClusterError as error:
            if not self._stop.is_set():
                self._target.note(str(error))
            if isinstance(error, Forbidden):
                self._fail(error)
        except SkyError as error:
            self._fail(error)
        except RuntimeError:  # no thread can start while the interpreter exits
            if not self._stop.is_set():
                raise
        finally:
            with self._lock:
                self._open.pop(client, None)

    def _fail(self, error: SkyError) -> None:
        self._error = self._error or error
        self._stop.set()

    def _dial(self, remote: int) -> WebSocket:
        """Connect to the port, in a new pod if the current one is deleted."""
        backoff = Backoff(self._stop, _POD_TIMEOUT_SECONDS)
        while True:
            pod = self._target.pod()
            try:
                if not pod:
                    raise ClusterError("no pod yet")
                return self._connect(*pod, remote)
            except Forbidden:
                raise
            except ClusterError as error:
                if self._stop.is_set():
                    raise
                backoff.wait_or_raise(error)

    def _connect(self, namespace: str, pod: str, remote: int) -> WebSocket:
        path = objects.path(kinds.POD, namespace, pod, "portforward")
        try:
            return connect(self._session, path, {"ports": str(remote)}, PROTOCOLS)
        except KubeletUnreachable as error:
            raise kubelets.name_node(self._session, namespace, pod, error) from None


def _copy_both_ways(client: socket.socket, websocket: WebSocket) -> str:
    """Copy bytes in both directions until one side closes; return the error message."""
    client_done = Event()

    def send() -> None:
        with suppress(OSError, ClusterError):
            while data := client.recv(_BLOCK_BYTES):
                websocket.send(bytes([_DATA_CHANNEL]) + data)
        client_done.set()

    parallel.run_daemon(send, name="port-forward sender")
    opened_channels: set[int] = set()
    error_text = b""
    try:
        for message in _messages(websocket, client_done):
            channel = message[0]
            data = message[1:]
            if channel not in opened_channels:  # the first message of a channel is its port number
                opened_channels.add(channel)
            elif channel == _DATA_CHANNEL:
                client.sendall(data)
            elif channel == _ERROR_CHANNEL and data:
                error_text = data[:_MAX_ERROR_BYTES]
                break
    except OSError:  # the client has disconnected
        pass
    finally:
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)  # close() alone would wait for the sender
    return " ".join(error_text.decode(errors="replace").split())


def _messages(websocket: WebSocket, client_done: Event) -> Iterator[bytes]:
    """Yield messages; after the client stops sending, until the pod is silent.

    The protocol has no half-close: it cannot signal that only one side has finished.
    """
    while True:
        try:
            sender_done = client_done.is_set()
            until = monotonic() + _CLOSE_AFTER_SECONDS if sender_done else None
            stop = None if sender_done else client_done
            message = websocket.receive(stop, until)
        except TimeoutError:
            if sender_done:
                return
            continue
        if message is None:
            return
        if message:
            yield message


def _resolve_addresses(name: str) -> Sequence[str]:
    if name == "localhost":
        return _LOCALHOST
    try:
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UserError(f"--address {name}: not an address of this machine") from None
    return [str(infos[0][4][0])]
