"""Send less: answers as gzip, and nothing of a document that the client has already."""

import hashlib
import zlib
from functools import partial

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubectl_sky.words.names import KUBERNETES_PATH
from kubectl_sky_server.rest.events import EVENT_STREAM

_JSON = "application/json"
_TEXTS = frozenset({_JSON, EVENT_STREAM, "text/css", "text/html", "text/javascript"})
_MIN_BYTES = 1000
_MAX_AT_ONCE = 64 * 1024  # bytes that delay others for a millisecond; a thread compresses more
_LEVEL = 5
_GZIP = 16  # added to the logarithm of the window
_WINDOW = 12  # rows of a list are alike: 4 KiB, so that an open stream needs 32 KiB, not 256
_STREAM_MEMORY = 5


class Transfer:
    """Compress answers, and answer a GET of an unchanged document with 304."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "http" and not scope["path"].startswith(f"{KUBERNETES_PATH}/")
        if is_ours:
            send = _Answer(scope, send).send
        await self._app(scope, receive, send)


class _Answer:
    """One answer, whose head waits for the body unless it is a stream."""

    def __init__(self, scope: Scope, send: Send) -> None:
        headers = Headers(scope=scope)
        self._send = send
        self._may_compress = scope["method"] != "HEAD" and _accepts_gzip(headers)
        self._has_tag = scope["method"] == "GET"
        self._known = headers.get("if-none-match", "")
        self._head: Message | None = None
        self._compressor: zlib._Compress | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            media_type = _media_type(message)
            if message["status"] != 200 or media_type not in _TEXTS:
                await self._send(message)
            elif media_type == EVENT_STREAM:
                self._begin_compressing(MutableHeaders(scope=message))
                await self._send(message)
            else:
                self._head = message
            return

        body = message.get("body", b"")
        more = message.get("more_body", False)
        if self._head:
            head = self._head
            self._head = None
            body = await self._begin(head, body, more)
        elif self._compressor:
            body = self._compress(body, more)
        await self._send({**message, "body": body})

    async def _begin(self, head: Message, body: bytes, more: bool) -> bytes:
        """Send the head; return the body as it is sent."""
        headers = MutableHeaders(scope=head)
        if self._has_tag and not more and _media_type(head) == _JSON:
            tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
            headers["ETag"] = tag
            if tag in self._known:
                head["status"] = 304
                del headers["Content-Length"]
                del headers["Content-Type"]
                body = b""

        if more or len(body) >= _MIN_BYTES:
            self._begin_compressing(headers)
        if self._compressor:
            work = partial(self._compress, body, more)
            body = await anyio.to_thread.run_sync(work) if len(body) > _MAX_AT_ONCE else work()
            if not more:
                headers["Content-Length"] = str(len(body))
        await self._send(head)
        return body

    def _begin_compressing(self, headers: MutableHeaders) -> None:
        headers.add_vary_header("Accept-Encoding")
        if not self._may_compress:
            return
        headers["Content-Encoding"] = "gzip"
        del headers["Content-Length"]
        tag = headers.get("ETag", "")
        if tag and not tag.startswith("W/"):
            headers["ETag"] = f"W/{tag}"
        self._compressor = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, _GZIP + _WINDOW, memLevel=_STREAM_MEMORY
        )

    def _compress(self, body: bytes, more: bool) -> bytes:
        assert self._compressor
        return self._compressor.compress(body) + self._compressor.flush(
            zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH
        )


def _accepts_gzip(headers: Headers) -> bool:
    codings = headers.get("accept-encoding", "").replace(" ", "").split(",")
    return any(coding == "gzip" or coding.startswith("gzip;q=1") for coding in codings)


def _media_type(head: Message) -> str:
    return Headers(raw=head["headers"]).get("content-type", "").partition(";")[0]
