"""Server-Sent Events, and the answers that are open streams."""

from contextlib import ExitStack

import msgspec
from anyio import CancelScope
from fastapi import Request
from fastapi.responses import StreamingResponse
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from kubectl_sky.errors import SkyError
from kubectl_sky_server.rest import problems
from kubectl_sky_server.rest.identity import SESSION_HEADER, Caller
from kubectl_sky_server.rest.limits import Streams

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": keep-alive\n\n"


def format_event(name: str, data: bytes, event_id: str = "") -> bytes:
    """Format an event; JSON has no line breaks."""
    identity = f"id: {event_id}\n" if event_id else ""
    return b"%sevent: %s\ndata: %s\n\n" % (identity.encode(), name.encode(), data)


def format_error(error: SkyError) -> bytes:
    """Format the event that ends a stream; its status tells whether a retry can help."""
    body = replace(problems.body_of(error), status=problems.status_of(error))
    return format_event("error", msgspec.json.encode(body))


class OpenStream(StreamingResponse):
    """An answer that goes on: it takes a slot of its user, and ends when the browser logs out."""

    def __init__(self, caller: Caller, request: Request, media_type: str = EVENT_STREAM) -> None:
        streams: Streams = request.app.state.streams
        self.seconds = request.app.state.config.limits.stream_seconds
        self._running: CancelScope | None = None
        self._slot = ExitStack()
        session = request.headers.get(SESSION_HEADER, "")
        self._slot.enter_context(streams.open(caller.user.name, session, self._end))
        super().__init__((), media_type=media_type, headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            with CancelScope() as self._running:
                await super().__call__(scope, receive, send)
            if self._running.cancelled_caught:
                await send({"type": "http.response.body", "body": b""})

    def _end(self) -> None:
        if self._running:
            self._running.cancel()
