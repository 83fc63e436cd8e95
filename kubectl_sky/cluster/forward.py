"""Ports of pods on this machine, as `kubectl port-forward` does, but for longer than one pod lives.

Each connection is a websocket of its own, to the pod that there is when the connection is made.
"""

import selectors
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import monotonic

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.backoff import Backoff
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.websocket import WebSocket, connect
from kubectl_sky.errors import ClusterError, Forbidden, SkyError, UserError

PROTOCOLS = ("v4.channel.k8s.io",)

_DATA, _ERROR = 0, 1
_BLOCK = 32 * 1024
_TICK = 0.5
_TEXT = 1000  # bytes of an error that are shown
_WAITING = 128  # connections that wait to be accepted
_AFTER = 10.0  # seconds of silence after which what has no sender any more is ended
_POD_TIMEOUT = 60.0  # seconds that a connection waits for a pod that starts again
_LOCALHOST = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Pair:
    """A port here, 0 for any that is free, and one in the pod."""

    local: int
    remote: int


@dataclass(frozen=True)
class Target:
    """Where connections go, asked anew for each: namespace and pod. Raises SkyError for good."""

    pod: Callable[[], tuple[str, str] | None]  # None while there is none
    note: Callable[[str], None]


class Forwarder:
    """Listens here and joins each connection to a pod's port, many at once."""

    def __init__(self, session: Session, target: Target) -> None:
        self._session, self._target = session, target
        self._stop = Event()
        self._lock = Lock()
        self._error: SkyError | None = None
        self._open: dict[socket.socket, WebSocket | None] = {}
        self._listeners: list[tuple[socket.socket, int]] = []

    def listen(self, addresses: Sequence[str], pair: Pair) -> Iterator[str]:
        """Listen for a pair of ports; yield each address as people write it. Raises UserError."""
        names = [one for name in addresses for one in _resolved(name)]
        local, failures = pair.local, []
        for name in names:
            try:
                listener = _bound(name, local)
            except OSError as error:
                failures.append((name, error))
                continue
            local = listener.getsockname()[1]  # the same for all addresses
            self._listeners.append((listener, pair.remote))
            yield f"[{name}]:{local}" if ":" in name else f"{name}:{local}"
        optional = "localhost" in addresses and len(failures) < len(names)
        if failures and not (optional and failures[0][0] == _LOCALHOST[1]):
            name, failed = failures[0]
            raise UserError(
                f"cannot listen on {name} port {pair.local}: {(failed.strerror or '').lower()}",
                f"choose another port: :{pair.remote} takes any that is free",
            )

    def serve(self) -> None:
        """Serve until it is interrupted. Raises the SkyError by which there is nothing to reach."""
        try:
            with selectors.DefaultSelector() as selector:
                for listener, remote in self._listeners:
                    selector.register(listener, selectors.EVENT_READ, remote)
                while not self._stop.is_set():
                    for key, _ in selector.select(_TICK):
                        self._accept(key.fileobj, key.data)
        finally:
            self.close()
        if self._error:
            raise self._error

    def close(self) -> None:
        """End all connections, and listen no longer."""
        self._stop.set()
        for listener, _ in self._listeners:
            listener.close()
        with self._lock:
            open_now = list(self._open.items())
        for line, wire in open_now:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            if wire:
                wire.hang_up()

    def _accept(self, listener: object, remote: int) -> None:
        assert isinstance(listener, socket.socket)
        try:
            line, _address = listener.accept()
        except OSError:  # it has gone again
            return
        local = listener.getsockname()[1]
        self._target.note(f"Handling connection for {local}")
        with self._lock:
            self._open[line] = None
        Thread(target=self._serve, args=(line, remote), name="port-forward", daemon=True).start()

    def _serve(self, line: socket.socket, remote: int) -> None:
        try:
            with line, self._dial(remote) as wire:
                with self._lock:
                    self._open[line] = wire
                told = _join(line, wire)
            if told and not self._stop.is_set():
                self._target.note(told)
        except ClusterError as error:
            if not self._stop.is_set():
                self._target.note(str(error))
            if isinstance(error, Forbidden):
                self._fail(error)
        except SkyError as error:
            self._fail(error)
        finally:
            with self._lock:
                self._open.pop(line, None)

    def _fail(self, error: SkyError) -> None:
        self._error = self._error or error
        self._stop.set()

    def _dial(self, remote: int) -> WebSocket:
        """Reach the port, in the next pod if this one has gone."""
        backoff = Backoff(self._stop, _POD_TIMEOUT)
        while True:
            found = self._target.pod()
            try:
                if not found:
                    raise ClusterError("there is no pod yet")
                path = objects.path(kinds.POD, *found, "portforward")
                return connect(self._session, path, {"ports": str(remote)}, PROTOCOLS)
            except Forbidden:
                raise
            except ClusterError as error:
                if self._stop.is_set():
                    raise
                backoff.wait_or_raise(error)


def _join(line: socket.socket, wire: WebSocket) -> str:
    """Pass bytes on in both directions until one side has ended; return what went wrong."""
    ended = Event()

    def send() -> None:
        with suppress(OSError, ClusterError):
            while data := line.recv(_BLOCK):
                wire.send(bytes([_DATA]) + data)
        ended.set()

    Thread(target=send, name="port-forward sender", daemon=True).start()
    begun: set[int] = set()
    told = b""
    try:
        for message in _messages(wire, ended):
            channel, data = message[0], message[1:]
            if channel not in begun:  # which port it is
                begun.add(channel)
            elif channel == _DATA:
                line.sendall(data)
            elif channel == _ERROR and data:
                told = data[:_TEXT]
                break
    except OSError:  # the client has gone
        pass
    finally:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)  # closing alone would wait for the sender
    return " ".join(told.decode(errors="replace").split())


def _messages(wire: WebSocket, ended: Event) -> Iterator[bytes]:
    """Yield what comes; once nobody sends any more, until nothing comes for a while.

    The protocol cannot say that one side has ended while the other goes on.
    """
    while True:
        try:
            over = ended.is_set()
            until = monotonic() + _AFTER if over else None
            message = wire.receive(None if over else ended, until)
        except TimeoutError:
            if over:
                return
            continue
        if message is None:
            return
        if message:
            yield message


def _resolved(name: str) -> Sequence[str]:
    if name == "localhost":
        return _LOCALHOST
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UserError(f"--address {name}: no address of this machine") from None
    return [str(found[0][4][0])]


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_WAITING)
