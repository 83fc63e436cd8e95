"""Connections of clients: how many there are, and how long they may send or read nothing."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 2000
HEAD_SECONDS = 10.0  # until the head of a request is complete
STALL_SECONDS = 600.0  # in which a client may read nothing: a person may pause a log
_CHECK_SECONDS = 2.0
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"


class Connection(H11Protocol):
    """A connection that is closed if its client does not send its request or read its answer."""

    _waiting_since = 0.0  # for a request
    _unread = 0  # bytes of the answer at the last check
    _read_at = 0.0  # when the client has last read something

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_FULL)
            transport.close()
            return
        self._waiting_since = self._read_at = self.loop.time()
        self._check_again()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def _check_again(self) -> None:
        self.loop.call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        if self not in self.connections:  # closed, or a WebSocket
            return
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._read_at = now
        self._unread = unread
        is_late = self._is_waiting() and now - self._waiting_since > HEAD_SECONDS
        if is_late or now - self._read_at > STALL_SECONDS:
            self.transport.abort()
        else:
            self._check_again()

    def _is_waiting(self) -> bool:
        """Return whether the head of a request, or the rest of one that is refused, is missing."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
