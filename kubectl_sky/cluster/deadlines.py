"""Bound the total time of a request: before each read and write, by the time that remains.

The timeouts of a socket limit each wait only, so that a server that sends one byte per minute
would never time out. Every connection of a pool is registered here, to be closed at the exit.
"""

import atexit
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.client import HTTPResponse
from threading import Condition
from time import monotonic
from typing import Any
from weakref import WeakSet

import urllib3
from urllib3.connection import HTTPConnection

_WRITE_BYTES = 16_384  # bytes; a TLS record
_EXIT_SECONDS = 1.0  # seconds for the threads to notice the end; one may wait for a host's address


class _Current(threading.local):
    """The deadline of the request that the current thread sends."""

    at: float | None = None  # monotonic time


_current = _Current()


@contextmanager
def within(seconds: float) -> Iterator[float]:
    """Bound the requests that this thread sends meanwhile; yield the deadline."""
    _current.at = monotonic() + seconds
    try:
        yield _current.at
    finally:
        _current.at = None


def remaining() -> float | None:
    """Return the seconds until the deadline, None without one. Raises TimeoutError after it."""
    if _current.at is None:
        return None
    seconds = _current.at - monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


class _OpenSockets:
    """The sockets of all connections, and how many calls use one now."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._calls = 0
        self._closed = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                raise ConnectionAbortedError("the process ends")
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def add(self, sock: socket.socket) -> None:
        with self._changed:
            self._sockets.add(sock)

    def close(self) -> None:
        """End all connections for good, and wait until no thread uses one."""
        with self._changed:
            self._closed = True
            for sock in list(self._sockets):
                with suppress(OSError, ValueError):  # already closed
                    sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits
            self._changed.wait_for(lambda: not self._calls, _EXIT_SECONDS)


_open_sockets = _OpenSockets()
# Python's exit cleans up OpenSSL: below a thread that reads, that is a segmentation fault.
atexit.register(_open_sockets.close)


@contextmanager
def _bounded(sock: socket.socket) -> Iterator[None]:
    """Lower a socket's timeout to the time that remains, for one call."""
    seconds = remaining()
    timeout = sock.gettimeout()
    lower = seconds is not None and (timeout is None or seconds < timeout)
    with _open_sockets.in_use():
        if lower:
            sock.settimeout(seconds)
        try:
            yield
        finally:
            if lower:
                with suppress(OSError):  # closed meanwhile
                    sock.settimeout(timeout)


class _Reader(io.RawIOBase):
    """Read from a socket, each time for no longer than remains."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - as in RawIOBase
        with _bounded(self._socket):
            return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Source:
    """A socket as `http.client` needs it for an answer."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._socket))


class _Response(HTTPResponse):
    """An answer whose headers and content are read before the deadline."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(_Source(sock), *args, **kwargs)  # type: ignore[arg-type]


class _Bounded(HTTPConnection):
    """A connection that keeps the deadline of the current thread."""

    response_class = _Response

    def connect(self) -> None:
        seconds = remaining()
        if seconds is not None and isinstance(self.timeout, int | float):
            self.timeout = min(self.timeout, seconds)
        with _open_sockets.in_use():
            super().connect()
        if isinstance(self.sock, socket.socket):  # not TLS within TLS, of a proxy
            _open_sockets.add(self.sock)

    def send(self, data: Any) -> None:  # noqa: ANN401 - as in http.client
        if self.sock is None:
            self.connect()
        for start in range(0, len(data), _WRITE_BYTES):
            with _bounded(self.sock):
                super().send(data[start : start + _WRITE_BYTES])


def bound(manager: urllib3.PoolManager) -> None:
    """Let all connections of a pool keep the deadline of the thread that uses them."""
    manager.pool_classes_by_scheme = {
        scheme: _bounded_pool(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }


@cache
def _bounded_pool(
    pool: type[urllib3.HTTPConnectionPool],
) -> type[urllib3.HTTPConnectionPool]:
    connection = type("BoundedConnection", (_Bounded, pool.ConnectionCls), {})
    return type("BoundedPool", (pool,), {"ConnectionCls": connection})
