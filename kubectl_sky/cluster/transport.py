"""Send requests to an untrusted API server, limited in time, size and retries."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import urllib3
from msgspec import Struct
from msgspec.structs import replace
from urllib3 import exceptions
from urllib3.exceptions import HTTPError, InvalidHeader, ReadTimeoutError
from urllib3.util.retry import Retry

from kubectl_sky.cluster import deadlines
from kubectl_sky.cluster.connection import KUBERNETES_PATH
from kubectl_sky.cluster.errors import CHECK_ADDRESS, RequestInfo
from kubectl_sky.cluster.http_trace import Trace
from kubectl_sky.errors import ClusterError, SkyError, Unreachable

if TYPE_CHECKING:
    from kubectl_sky.cluster.client import Client

MAX_ANSWER_BYTES = 64 * 1024 * 1024  # bytes, uncompressed: 500 objects of 100 kB

_MAX_REFUSAL_BYTES = 1024 * 1024  # bytes of an error response
_MAX_PAUSE_SECONDS = 30  # between all attempts together: the server's Retry-After, or backoff
_CHUNK_BYTES = 65536
_NO_METHODS = frozenset({"none"})  # urllib3 treats an empty set as all methods
_CHECK_NETWORK = "check that the cluster runs and that you are on its network or VPN"
_CHECK_SKY_SERVER = "check the address of --server-url, and that `kubectl sky api` runs there"
_CHECK_CERTIFICATE = "check certificate-authority and server in the kubeconfig"
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_UNAVAILABLE = frozenset({502, 503, 504})


class TooLarge(HTTPError):
    """Raised for a response larger than any list of Kubernetes objects."""


class Retries(Retry):
    """Up to five retries within some seconds, with urllib3's counting and backoff.

    A request that was not sent is always retried. One that the server may have processed is
    retried only if it is repeatable. 429 means that nothing was done, for any method. 500 is
    retried only for reads, because server-side apply answers 500 for an unknown field.
    """

    @classmethod
    def standard(cls, *, repeatable: bool = True) -> Self:
        """Return the retry rules for a request."""
        return cls(
            total=5,
            connect=3,
            other=0,  # certificate errors are permanent
            allowed_methods=None if repeatable else _NO_METHODS,
            backoff_factor=0.2,
            backoff_max=5,
            backoff_jitter=0.2,
        )

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Check whether to retry after a response with this status."""
        if not self.total:
            return False
        if status_code == _TOO_MANY_REQUESTS or (has_retry_after and status_code >= _SERVER_ERROR):
            return True
        reading = status_code == _SERVER_ERROR and method == "GET"
        return self.allowed_methods is None and (status_code in _UNAVAILABLE or reading)

    def increment(self, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - as in urllib3
        """Count a failure. A read timeout is not retried."""
        error = kwargs.get("error")
        if isinstance(error, ReadTimeoutError):
            raise error
        return super().increment(*args, **kwargs)

    def pause(self, retry_after: str, longest: float) -> float:
        """Wait for the server's Retry-After, or use exponential backoff; return the seconds."""
        seconds = 0.0
        with suppress(InvalidHeader, ValueError, OverflowError):
            seconds = self.parse_retry_after(retry_after) if retry_after else 0
        seconds = seconds or self.get_backoff_time()
        seconds = max(0.0, min(seconds, longest))
        time.sleep(seconds)
        return seconds


class Request(Struct, frozen=True):
    """A request as sent. `seconds` limits all retries, or the start of a stream.

    `connect` and `read` are socket timeouts in seconds; `read` may be None for a stream.
    """

    method: str
    url: str
    headers: urllib3.HTTPHeaderDict
    body: bytes | None
    connect: float
    read: float | None
    seconds: float
    retries: Retries
    streamed: bool = False


class Reply(Struct, frozen=True):
    """A response: its content in `data`, or an open `stream` if requested."""

    status: int
    headers: Any  # a case-insensitive mapping
    data: bytes
    stream: Any = None
    retries: Retry | None = None

    @property
    def content_type(self) -> str:
        """The media type in lowercase, without parameters."""
        return str(self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()


Attempt = Callable[["Client", Request], Reply]


def exchange(client: "Client", request: Request, attempt: Attempt | None = None) -> Reply:
    """Send a request until it is answered, within its time in all.

    Raises HTTPError, TimeoutError, OSError, ValueError.
    """
    attempt, retries, pauses = attempt or _attempt, request.retries, float(_MAX_PAUSE_SECONDS)
    with deadlines.within(request.seconds) as deadline:
        while time.monotonic() < deadline:
            retry_after = ""
            try:
                reply = _logged(client, request, attempt)
            except HTTPError as error:
                if time.monotonic() >= deadline and not isinstance(error, exceptions.TimeoutError):
                    break
                retries = retries.increment(request.method, request.url, error=error)
            else:
                retry_after = str(reply.headers.get("Retry-After") or "")
                is_retry = retries.is_retry(request.method, reply.status, bool(retry_after))
                if not is_retry or pauses <= 0:
                    return replace(reply, retries=retries)
                retries = retries.increment(request.method, request.url)
            pauses -= retries.pause(retry_after, min(pauses, deadline - time.monotonic()))
    raise TimeoutError


def _logged(client: "Client", request: Request, attempt: Attempt) -> Reply:
    if not Trace.enabled():
        return attempt(client, request)
    trace = Trace(request.method, request.url, request.headers, request.body)
    try:
        reply = attempt(client, request)
    except (HTTPError, OSError, SkyError) as error:
        trace.failed(error)
        raise
    trace.answered(reply.status, reply.headers, reply.data)
    return reply


def _attempt(client: "Client", request: Request) -> Reply:
    response = client.send(request)
    if request.streamed and 200 <= response.status < 300:  # 204 for an empty log
        return Reply(response.status, response.headers, b"", response)
    return Reply(response.status, response.headers, _read(response))


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    """Read a whole response; truncate a long error response. Raises TooLarge."""
    refused = response.status >= 300
    parts: list[bytes] = []
    size = 0
    while chunk := response.read1(_CHUNK_BYTES, decode_content=True):
        parts.append(chunk)
        size += len(chunk)
        if size > (_MAX_REFUSAL_BYTES if refused else MAX_ANSWER_BYTES):
            response.close()
            if refused:
                break
            raise TooLarge
    response.release_conn()
    return b"".join(parts)


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
            while chunk := self._response.read1(_CHUNK_BYTES, decode_content=self._decode):
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


def unreachable(info: RequestInfo, error: Exception) -> ClusterError:
    """Return the error for an exception of urllib3 or a socket."""
    while isinstance(error, exceptions.MaxRetryError) and error.reason:
        error = error.reason
    if isinstance(error, exceptions.SSLError):
        return _untrusted(info, error)
    for failure, result, what, hint in _FAILURES:
        if isinstance(error, failure):
            host = info.host.rsplit(":", 1)[0]
            why = _matching(_NOT_CONNECTED, str(error).lower()) or str(error)
            if hint == _CHECK_NETWORK and info.server.endswith(KUBERNETES_PATH):
                hint = _CHECK_SKY_SERVER
            elif why == _REFUSED and host in _LOOPBACK:
                hint = _CHECK_LOCAL
            return result(what.format(info=info, host=host, why=why), hint)
    return Unreachable(f"lost the connection to {info.host}", "try again")


def _untrusted(info: RequestInfo, error: Exception) -> ClusterError:
    text = str(error)
    if "EOF" in text:
        return Unreachable(
            f"cannot reach {info.host}: it closed the connection before TLS started", _CHECK_NETWORK
        )
    why = _matching(_TLS, text) or " ".join(text.split())
    return ClusterError(f"no trusted connection to {info.host}: {why}", _CHECK_CERTIFICATE)


def _matching(table: Sequence[tuple[str, str]], text: str) -> str | None:
    return next((why for word, why in table if word in text), None)


_REFUSED = "connection refused"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_CHECK_LOCAL = (
    "check that the cluster, or the tunnel to it, runs;"
    " if it is the practice cluster, run `kubectl sky local up`"
)
_NOT_CONNECTED = (
    ("refused", _REFUSED),
    ("no route to host", "no route to the host"),
    ("unreachable", "the network is unreachable"),
    ("timed out", "timed out"),
)
_TLS = (
    ("PEM", "the kubeconfig's certificates or keys are damaged"),
    ("no certificate or crl found", "the kubeconfig's certificate-authority is damaged"),
    ("no start line", "the kubeconfig's certificates or keys are damaged"),
    ("Hostname mismatch", "its certificate is for another host name"),
    ("IP address mismatch", "its certificate is for another address"),
    ("certificate has expired", "its certificate has expired"),
    ("self-signed", "its certificate is not signed by the expected authority"),
    ("self signed", "its certificate is not signed by the expected authority"),
    ("unable to get local issuer", "its certificate is not signed by the expected authority"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS; the server's address may want http://"),
    ("wrong version number", "it does not speak TLS; the server's address may want http://"),
    ("CERTIFICATE_REQUIRED", "the server requires a client certificate"),
    ("certificate required", "the server requires a client certificate"),
)
_TIMED_OUT = "{info.host} did not answer {info.method} {info.resource} in time"
_MORE_TIME = "try again, or allow more with --request-timeout"
_FAILURES: tuple[tuple[type[Exception], type[ClusterError], str, str], ...] = (
    (
        exceptions.NameResolutionError,
        Unreachable,
        "cannot reach {info.host}: the host name {host} is not known",
        _CHECK_NETWORK,
    ),
    (
        exceptions.ProxyError,
        Unreachable,
        "cannot reach {info.host}: the proxy does not answer",
        "check HTTPS_PROXY, NO_PROXY and proxy-url in the kubeconfig",
    ),
    (
        exceptions.NewConnectionError,
        Unreachable,
        "cannot reach {info.host}: {why}",
        _CHECK_NETWORK,
    ),
    (
        exceptions.ConnectTimeoutError,
        Unreachable,
        "cannot reach {info.host}: timed out",
        _CHECK_NETWORK,
    ),
    (exceptions.ReadTimeoutError, Unreachable, _TIMED_OUT, _MORE_TIME),
    (TimeoutError, Unreachable, _TIMED_OUT, _MORE_TIME),
    (
        TooLarge,
        ClusterError,
        "{info.host} answers {info.method} {info.resource} with more than the 64 MiB allowed",
        CHECK_ADDRESS,
    ),
    (
        exceptions.DecodeError,
        ClusterError,
        "{info.host} answers {info.method} {info.resource} with damaged data",
        CHECK_ADDRESS,
    ),
    (
        exceptions.LocationValueError,
        ClusterError,
        '"{info.server}" is not a server address',
        "use https://HOST:PORT",
    ),
)
