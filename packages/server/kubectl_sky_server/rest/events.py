"""Server-Sent Events, and the answers that are open streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import msgspec
from anyio import CancelScope, to_thread
from fastapi import Request
from fastapi.responses import StreamingResponse
from msgspec.structs import replace
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from kubectl_sky.errors import Forbidden, SkyError, Unauthorized
from kubectl_sky_server.rest import problems
from kubectl_sky_server.rest.identity import SESSION_HEADER, Caller
from kubectl_sky_server.rest.limits import Streams
from kubectl_sky_server.rest.problems import LOG

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": keep-alive\n\n"
REVIEW_SECONDS = 50.0  # a right that is withdrawn ends a stream within a minute


def format_event(name: str, data: bytes, event_id: str = "") -> bytes:
    """Format an event; JSON has no line breaks."""
    identity = f"id: {event_id}\n" if event_id else ""
    return b"%sevent: %s\ndata: %s\n\n" % (identity.encode(), name.encode(), data)


def format_error(error: SkyError) -> bytes:
    """Format the event that ends a stream; its status tells whether a retry can help."""
    body = replace(problems.body_of(error), status=problems.status_of(error))
    return format_event("error", msgspec.json.encode(body))


@asynccontextmanager
async def reviewed(
    connection: HTTPConnection, confirm: Callable[[], object], end: Callable[[], object]
) -> AsyncIterator[None]:
    """Confirm every minute that the caller may go on, and call `end` once the caller may not.

    An API server that is away decides later.
    """

    async def review() -> None:
        while True:
            await asyncio.sleep(REVIEW_SECONDS)
            try:
                await to_thread.run_sync(confirm, limiter=connection.app.state.review_threads)
            except (Unauthorized, Forbidden):
                end()
                return
            except SkyError as error:
                LOG.debug("cannot review a stream: %s", error.what)

    reviewing = asyncio.create_task(review())
    try:
        yield
    finally:
        reviewing.cancel()


class OpenStream(StreamingResponse):
    """An answer that goes on: it takes a slot of its user, and ends when the browser logs out.

    It also ends when `confirm`, by default a review of the token, raises Unauthorized or Forbidden.
    """

    def __init__(
        self,
        caller: Caller,
        request: Request,
        media_type: str = EVENT_STREAM,
        confirm: Callable[[], object] | None = None,
    ) -> None:
        streams: Streams = request.app.state.streams
        self._request = request
        self._confirm = confirm or partial(request.app.state.identities.confirm, caller)
        self.seconds = request.app.state.config.limits.stream_seconds
        self._running: CancelScope | None = None
        self._slot = ExitStack()
        session = request.headers.get(SESSION_HEADER, "")
        self._slot.enter_context(streams.open(caller.user.name, session, self._end))
        super().__init__((), media_type=media_type, headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            with CancelScope() as self._running:
                async with reviewed(self._request, self._confirm, self._end):
                    await super().__call__(scope, receive, send)
            if self._running.cancelled_caught:
                await send({"type": "http.response.body", "body": b""})

    def _end(self) -> None:
        if self._running:
            self._running.cancel()
