"""Fetch from other servers than the API server: one answer, within limits of time and size.

These servers are not trusted. No redirect is followed, and no text of an answer or URL gets into
an error.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.client import IncompleteRead
from typing import Any
from urllib.request import getproxies, proxy_bypass

import urllib3
from msgspec import Struct
from urllib3 import exceptions

from kubectl_sky import __version__
from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.transport import remaining
from kubectl_sky.errors import SkyError

_CHUNK_BYTES = 65536
_USER_AGENT = f"kubectl-sky/{__version__}"


class FetchFailed(SkyError):
    """There is no whole answer; `reason` is one CamelCase word."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


class Fetch(Struct, frozen=True):
    """What to fetch. `seconds` are for everything, from the name resolution on.

    `authority` are PEM certificates, empty for the system's. With `allows`, the host is reached
    directly, at an address for which it is true; else https goes through the proxy of the
    environment. Of an answer with another status than 200, and beyond `max_bytes`, the body is not
    read.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    seconds: float = 10.0
    max_bytes: int = 0
    authority: str = ""
    allows: Callable[[str], bool] | None = None


class Answer(Struct, frozen=True):
    """The status and the headers; `data` may have more than `max_bytes` if the body has."""

    status: int
    headers: Mapping[str, str]
    data: bytes = b""


def fetch(request: Fetch) -> Answer:
    """Send a request and return its answer. Raises FetchFailed."""
    # The timeouts of a socket are for each wait, and resolvers have none: a thread may go on.
    sockets: list[Any] = []
    try:
        return parallel.run_future(_fetch, request, sockets, name="fetch").result(request.seconds)
    except exceptions.NewConnectionError as error:  # a TimeoutError of urllib3
        raise FetchFailed("ConnectionFailed", _describe(error)) from None
    except (TimeoutError, exceptions.TimeoutError):
        for sock in sockets:
            with suppress(OSError, ValueError):
                sock.shutdown(socket.SHUT_RDWR)  # ends the thread
        raise FetchFailed("Timeout", f"no answer within {request.seconds:g} seconds") from None
    except (ssl.SSLError, exceptions.SSLError) as error:
        cause = error.args[0] if isinstance(error, exceptions.SSLError) else error
        why = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "TLS failed"
        raise FetchFailed("TLSFailed", str(why)) from None
    except (exceptions.HTTPError, OSError, ValueError) as error:
        if isinstance(error.__cause__, IncompleteRead):
            raise FetchFailed("Truncated", "the connection was closed before the end") from None
        raise FetchFailed("ConnectionFailed", _describe(error)) from None


def _fetch(request: Fetch, sockets: list[Any]) -> Answer:
    deadline = time.monotonic() + request.seconds
    url = urllib3.util.parse_url(request.url)
    headers = {"User-Agent": _USER_AGENT, "Host": url.netloc or "", **request.headers}
    failure: Exception = OSError("its address is not allowed")

    for pool in _pools(request, url):
        pool.ConnectionCls = _record_sockets(pool.ConnectionCls, sockets)
        try:
            response = pool.urlopen(
                request.method,
                url.request_uri,
                request.body,
                headers,
                retries=False,
                redirect=False,
                timeout=remaining(deadline),
                preload_content=False,
                decode_content=False,
            )
            with pool:
                return Answer(response.status, response.headers, _read(response, request))
        except exceptions.ConnectTimeoutError as error:
            failure = error  # of this address
    raise failure


def _pools(request: Fetch, url: urllib3.util.Url) -> Iterator[urllib3.HTTPConnectionPool]:
    host = url.host or ""
    is_https = url.scheme == "https"
    try:
        context = ssl.create_default_context(cadata=request.authority or None)
    except (ssl.SSLError, ValueError):
        raise FetchFailed("InvalidCA", "the CA is not in PEM format") from None
    tls: dict[str, Any] = {"ssl_context": context, "server_hostname": host.strip("[]")}
    tls = tls if is_https else {}

    if request.allows is None:
        proxy = getproxies().get("https") if is_https and not proxy_bypass(host) else None
        manager = _manager(proxy, tls) if proxy else urllib3.PoolManager(**tls)
        yield manager.connection_from_url(request.url)
        return

    kind = urllib3.HTTPSConnectionPool if is_https else urllib3.HTTPConnectionPool
    port = url.port or (443 if is_https else 80)
    infos = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    for address in dict.fromkeys(str(info[4][0]) for info in infos):
        if request.allows(address):
            yield kind(address, port, **tls)


def _manager(proxy: str, tls: dict[str, Any]) -> urllib3.ProxyManager:
    url = urllib3.util.parse_url(proxy if "://" in proxy else f"http://{proxy}")
    headers = urllib3.util.make_headers(proxy_basic_auth=url.auth) if url.auth else None
    return urllib3.ProxyManager(url._replace(auth=None).url, proxy_headers=headers, **tls)


def _record_sockets(connection: Any, sockets: list[Any]) -> type:
    def connect(self: Any) -> None:
        connection.connect(self)
        sockets.append(self.sock)

    return type("RecordedConnection", (connection,), {"connect": connect})


def _read(response: urllib3.BaseHTTPResponse, request: Fetch) -> bytes:
    data = bytearray()
    length = response.headers.get("Content-Length", "0")
    if response.status != 200 or (length.isdecimal() and int(length) > request.max_bytes):
        return b""
    while len(data) <= request.max_bytes and (chunk := response.read(_CHUNK_BYTES)):
        data += chunk
    return bytes(data)


def _describe(error: BaseException) -> str:
    """Return the operating system's words for an error; never a part of the answer."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError):
            return str(cause.strerror or cause)
        cause = cause.__cause__ or cause.__context__
    return "the server does not speak HTTP"
