"""Connections of clients: their number, the chunks of a body, and how long one may be idle."""

import asyncio
from typing import Any

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 2000
MAX_CHUNKS = 1000  # of a body; each costs the event loop 7 µs
HEAD_SECONDS = 10.0  # until the head of a request is complete
STALL_SECONDS = 30.0  # in which a client may read nothing of what waits for it
_CHECK_SECONDS = 2.0
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"


class _Parser(h11.Connection):
    """A parser that reads a body in chunks when it is asked for, and refuses too many chunks."""

    chunks = 0  # of the current body
    is_held = False  # until the application, which knows the caller, wants the body

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.is_held:
            return h11.PAUSED
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = 0
            self.is_held = any(name == b"transfer-encoding" for name, _ in event.headers)
        elif isinstance(event, h11.Data) and event.chunk_start:
            self.chunks += 1
            if self.chunks > MAX_CHUNKS:
                raise h11.RemoteProtocolError("too many chunks")
        return event


class Connection(H11Protocol):
    """A connection that is closed if its client does not send its request or read its answer."""

    _waiting_since = 0.0  # for a request
    _unread = 0  # bytes of the answer at the last check
    _read_at = 0.0  # when the client has last read something

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn: _Parser = _Parser(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)
        self._application = self.app
        self.app = self._handle

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_body() -> Message:
            self._release_body()
            return await receive()

        await self._application(scope, receive_body, send)

    def _release_body(self) -> None:
        if self.conn.is_held:
            self.conn.is_held = False
            self.handle_events()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_FULL)
            transport.close()
            return
        self._waiting_since = self._read_at = self.loop.time()
        self._check_again()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless an answer has started."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        is_bomb = self.conn.chunks > MAX_CHUNKS
        super().send_400_response(
            f"the body has more than {MAX_CHUNKS:,} chunks" if is_bomb else msg
        )

    def on_response_complete(self) -> None:
        self._waiting_since = self.loop.time()
        is_unread = self.conn.is_held
        super().on_response_complete()
        if is_unread and not self.transport.is_closing():
            self._release_body()  # to find the next request

    def resume_writing(self) -> None:
        """Note that the client reads, even if the answer fills the buffer again at once."""
        self._read_at = self.loop.time()
        super().resume_writing()

    def _check_again(self) -> None:
        self.loop.call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        if self not in self.connections:  # closed, or a WebSocket
            return
        now = self.loop.time()
        unread = self.transport.get_write_buffer_size()
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
