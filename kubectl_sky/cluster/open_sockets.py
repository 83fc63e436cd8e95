"""Close all sockets at the exit: cleaning up OpenSSL below a thread that reads is a crash."""

import atexit
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Condition
from typing import Any
from weakref import WeakSet

import urllib3
from urllib3.connection import HTTPConnection

from kubectl_sky.cluster.response_head import TimelyResponse

_EXIT_SECONDS = 1.0  # seconds for the threads to notice the end; one may wait for a host's address


class OpenSockets:
    """The sockets of this process."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._calls = 0  # that use one now
        self._closed = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Delay the exit while a socket is used. Raises ConnectionAbortedError after it."""
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


OPEN = OpenSockets()
atexit.register(OPEN.close)


class _Registered(HTTPConnection):
    """A connection whose socket is in OPEN, and in `opened` as long as its answer is read."""

    response_class = TimelyResponse
    opened: Any = None  # http.client drops its `sock` early if the server closes the connection

    def connect(self) -> None:
        super().connect()
        self.opened = self.sock
        if isinstance(self.sock, socket.socket):  # not TLS within TLS, of a proxy
            OPEN.add(self.sock)

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(self.timeout)  # the last one was for the rest of another answer
        super().request(*args, **kwargs)


def limit_waits(response: urllib3.BaseHTTPResponse, seconds: float | None) -> None:
    """Limit each wait for more of an answer; None for no limit."""
    connection = response.connection  # None after the last byte: others may use it now
    if isinstance(connection, _Registered) and connection.opened:
        connection.opened.settimeout(seconds)


def register(manager: urllib3.PoolManager) -> None:
    """Add the sockets of all connections of a pool from now on."""
    manager.pool_classes_by_scheme = {
        scheme: _make_class(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }


@cache
def _make_class(pool: type[urllib3.HTTPConnectionPool]) -> type[urllib3.HTTPConnectionPool]:
    connection = type("RegisteredConnection", (_Registered, pool.ConnectionCls), {})
    return type("RegisteredPool", (pool,), {"ConnectionCls": connection})
