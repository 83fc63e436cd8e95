"""Requests and answers of the API server, limited in time, size and retries."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Self

import urllib3
from msgspec import Struct
from urllib3 import exceptions
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from kubectl_sky.cluster.errors import RequestInfo, TooLarge, is_about_kubelet, unreachable
from kubectl_sky.cluster.open_sockets import OPEN, limit_waits

MAX_RETRIES = 5
MAX_ANSWER_BYTES = 64 * 1024 * 1024  # bytes, uncompressed: 500 objects of 100 kB

_MAX_REFUSAL_BYTES = 1024 * 1024  # bytes of an error response
_MAX_PAUSE_SECONDS = 30  # between all attempts together: the server's Retry-After, or backoff
_CHUNK_BYTES = 65536
_CONNECT_RETRIES = 3
_NO_METHODS = frozenset({"none"})  # urllib3 treats an empty set as all methods


class Request(Struct, frozen=True):
    """A request as sent. `deadline` (monotonic) bounds it, or the start of a stream.

    `body` is encoded as JSON unless it is bytes, which are sent as they are. `connect` is in
    seconds; so is `silence` of a stream, None for no limit.
    """

    method: str
    url: str
    headers: urllib3.HTTPHeaderDict
    body: object
    connect: float
    deadline: float
    silence: float | None = None
    streamed: bool = False


class Reply(Struct, frozen=True):
    """A response: its content in `data`, or an open `stream` if requested.

    `retried` if the request was sent more than once.
    """

    status: int
    headers: Any  # a case-insensitive mapping
    data: bytes
    stream: Any = None
    retried: bool = False

    @property
    def content_type(self) -> str:
        """The media type in lowercase, without parameters."""
        return str(self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()


Attempt = Callable[[Any, Request], Reply]  # replaces `Client.send` for WebSocket handshakes


class Attempts:
    """The attempts of one request: some retries, before `deadline` (monotonic).

    A request that was not sent is always retried. One that the server may have processed is
    retried only if it is repeatable. 429 means that nothing was done, for any method. 500 is
    retried only for reads, because server-side apply answers 500 for an unknown field.
    """

    def __init__(self, method: str, seconds: float, retries: int, *, repeatable: bool) -> None:
        self.deadline = time.monotonic() + seconds
        self.retried = False
        self.lost = False  # whether an attempt had no answer
        self._method = method
        self._repeatable = repeatable
        self._longest = float(_MAX_PAUSE_SECONDS)

        methods = None if repeatable else _NO_METHODS
        self._retries = Retry(
            total=retries,
            connect=min(retries, _CONNECT_RETRIES),
            other=0,  # certificate errors are permanent
            allowed_methods=methods,
            backoff_factor=0.2,
            backoff_max=5,
            backoff_jitter=0.2,
        )

    def wait_after(self, error: Exception) -> Exception | None:
        """Wait for the next attempt after an error; return the one to report if there is none."""
        if not isinstance(error, HTTPError) or isinstance(error, exceptions.ReadTimeoutError):
            return error
        if time.monotonic() >= self.deadline and not isinstance(error, exceptions.TimeoutError):
            return TimeoutError()
        try:
            self._count_and_pause(error=error)
        except HTTPError as final:
            return final
        except TimeoutError as final:  # no time for another attempt
            return error if isinstance(error, exceptions.TimeoutError) else final
        self.lost = True
        return None

    def repeat_after(self, reply: Reply) -> bool:
        """Wait as the server asks if a request is to be repeated. Raises TimeoutError."""
        retry_after = str(reply.headers.get("Retry-After") or "")
        may_retry = self._retries.total and self._longest > 0
        if not (may_retry and self._is_retryable(reply.status, bool(retry_after))):
            return False
        if is_about_kubelet(reply.data):  # the server has tried for long, and is not away itself
            return False
        self._count_and_pause(retry_after)
        return True

    def _count_and_pause(self, retry_after: str = "", error: Exception | None = None) -> None:
        self._retries = self._retries.increment(self._method, error=error)
        self.retried = True
        self.pause(retry_after)

    def _is_retryable(self, status: int, has_retry_after: bool) -> bool:
        if status == 429 or (has_retry_after and status >= 500):
            return True
        reading = status == 500 and self._method == "GET"
        return self._repeatable and (status in (502, 503, 504) or reading)

    def pause(self, retry_after: str) -> None:
        """Wait for the server's Retry-After, or with backoff. Raises TimeoutError."""
        seconds = 0.0
        with suppress(exceptions.InvalidHeader, ValueError, OverflowError):
            seconds = self._retries.parse_retry_after(retry_after) if retry_after else 0
        seconds = seconds or self._retries.get_backoff_time()
        seconds = max(0.0, min(seconds, self._longest, remaining(self.deadline)))
        self._longest -= seconds
        time.sleep(seconds)
        remaining(self.deadline)


def remaining(deadline: float) -> float:
    """Return the seconds until a monotonic time. Raises TimeoutError after it."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


def read(response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """Read a whole response; truncate a long error response. Raises TooLarge, TimeoutError.

    The timeout of a socket is for each wait: it is lowered to what remains before each of them.
    """
    refused = response.status >= 300
    parts: list[bytes] = []
    size = 0

    while True:
        limit_waits(response, remaining(deadline))
        chunk = read_chunk(response)
        if not chunk:
            break
        parts.append(chunk)
        size += len(chunk)
        if size > (_MAX_REFUSAL_BYTES if refused else MAX_ANSWER_BYTES):
            response.close()
            if refused:
                break
            raise TooLarge

    response.release_conn()
    return b"".join(parts)


def read_chunk(response: urllib3.BaseHTTPResponse, *, decode: bool = True) -> bytes:
    """Return the next bytes as they arrive, none at the end."""
    with OPEN.in_use():
        return response.read1(_CHUNK_BYTES, decode_content=decode)


class Stream:
    """A stream of bytes. Iterating raises ClusterError if the connection is lost.

    Calling `close` in another thread ends an iteration that waits for data.
    """

    def __init__(
        self, response: urllib3.BaseHTTPResponse, info: RequestInfo, *, decode: bool = True
    ) -> None:
        self._response = response
        self._info = info
        self._decode = decode  # False leaves a Content-Encoding as it is
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := read_chunk(self._response, decode=self._decode):
                yield chunk
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            if self._closed:  # by another thread
                return
            raise unreachable(self._info, error) from None

    def close(self) -> None:
        """Close the connection; any thread may call it, more than once."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError, ValueError, RuntimeError):  # already closed
            self._response.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
        self._response.close()
