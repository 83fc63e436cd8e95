"""Download a graph over HTTP with a bearer token.

The server is not trusted: the time and the size are limited, redirects and compression are
refused, and no text of an answer gets into a message. Nor does the token.
"""

import io
import ipaddress
import re
import socket
import ssl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from time import monotonic
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from kubectl_sky import __version__
from kubectl_sky.ray.model_graph import MAX_BYTES

_CHUNK_BYTES = 65536
_TOKEN = re.compile(r"[!-~]{1,16384}\Z")
_MAX_ETAG = 1024  # characters
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "TooManyRequests"}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_METADATA_SERVICES = {"168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"}
# Of networks that are not public, only these: not 100.64.0.0/10, which providers use.
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # reaches the IPv4 address of its last 32 bits


class DownloadFailed(Exception):
    """A graph was not downloaded; `reason` is that of the condition Downloaded."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Source:
    """Where to download from. `authority` are PEM certificates, empty for the system's."""

    url: str
    token: str = field(default="", repr=False)
    authority: str = field(default="", repr=False)
    timeout: float = 30.0  # seconds for everything
    etag: str = ""


@dataclass(frozen=True)
class Answer:
    """The bytes, or None if they have not changed since the ETag of the source."""

    data: bytes | None
    etag: str


def download(source: Source, trusted_hosts: Collection[str] = ()) -> Answer:
    """Download a graph. Raises DownloadFailed.

    `trusted_hosts` may be reached by plain HTTP, and at addresses of this machine or its link.
    """
    url = check_url(source.url, trusted_hosts)
    if source.token and not _TOKEN.match(source.token):
        raise DownloadFailed("InvalidToken", "the token has spaces or control characters")
    try:
        with _connected(source, url, _is_trusted(url, trusted_hosts)) as connection:
            return _get(connection, source, url)
    except TimeoutError:
        why = f"no complete answer within {source.timeout:g} seconds"
        raise DownloadFailed("Timeout", why) from None
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise DownloadFailed("TLSFailed", f"cannot verify {url.hostname}: {why}") from None
    except IncompleteRead:
        raise DownloadFailed("Truncated", "the connection was closed before the end") from None
    except (HTTPException, OSError, ValueError) as error:
        why = f"cannot reach {url.hostname}: {_cause(error)}"
        raise DownloadFailed("ConnectionFailed", why) from None


def check_url(text: str, trusted_hosts: Collection[str]) -> SplitResult:
    """Return the parts of a URL that may be fetched. Raises DownloadFailed."""
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise DownloadFailed("InvalidURL", "spec.source.url is not a URL") from None
    if not host or port == 0 or not text.isascii() or not text.isprintable() or " " in text:
        raise DownloadFailed("InvalidURL", "spec.source.url is not a URL")
    if url.username is not None or url.password is not None:
        raise DownloadFailed("InvalidURL", "spec.source.url has a user: use spec.source.token")
    trusted = _is_trusted(url, trusted_hosts)
    if url.scheme != "https" and not (trusted and url.scheme == "http"):
        rule = "http only for hosts in the setting ray.trusted_hosts"
        raise DownloadFailed("InvalidURL", f"spec.source.url must use https; {rule}")
    if not trusted:
        _check_literal(host)
    return url


def _is_trusted(url: SplitResult, trusted_hosts: Collection[str]) -> bool:
    return (url.hostname or "") in {host.lower() for host in trusted_hosts}


def _check_literal(host: str) -> None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return  # a name: its addresses are checked when it is resolved
    if not is_public_or_private(str(address)):
        raise DownloadFailed("InvalidURL", f"address {host} is not allowed")


def is_public_or_private(text: str) -> bool:
    """Check that an address is another machine's, and no metadata service's."""
    return all(map(_is_allowed, _reached(ipaddress.ip_address(text.partition("%")[0]))))


def _reached(address: _Address) -> tuple[_Address, ...]:
    """Return the IPv4 addresses that gateways may send packets for an IPv6 address to, or it."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    if address in _NAT64:
        return (ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF),)
    return address.teredo or (address.ipv4_mapped or address.sixtofour or address,)


def _is_allowed(address: _Address) -> bool:
    if str(address) in _METADATA_SERVICES:
        return False
    if any(address in network for network in _PRIVATE):
        return True
    is_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    # is_global alone is true for multicast, and for fec0::/10.
    return address.is_global and not (address.is_multicast or address.is_reserved or is_local)


@contextmanager
def _connected(source: Source, url: SplitResult, trusted: bool) -> Iterator[HTTPConnection]:
    """Connect to an allowed address of the host; all of the download ends at a deadline."""
    deadline, context = monotonic() + source.timeout, _tls(source.authority)
    is_https, host = url.scheme == "https", url.hostname or ""
    port = url.port or (443 if is_https else 80)
    channel = _connect(host, port, trusted, deadline)
    try:
        channel.settimeout(_remaining(deadline))
        if is_https:
            channel = context.wrap_socket(channel, server_hostname=host)
        connection = (HTTPSConnection if is_https else HTTPConnection)(host, port)
        connection.sock = cast(Any, _TimedSocket(channel, deadline))
        yield connection
    finally:
        channel.close()


def _remaining(deadline: float) -> float:
    """Return the seconds until a deadline. Raises TimeoutError."""
    seconds = deadline - monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _connect(host: str, port: int, trusted: bool, deadline: float) -> socket.socket:
    """Connect to the first address that answers, of those that are allowed. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError("its address is not allowed")
    for address in dict.fromkeys(str(info[4][0]) for info in infos):
        if trusted or is_public_or_private(address):
            try:
                return socket.create_connection((address, port), _remaining(deadline))
            except OSError as error:
                failure = error
    raise failure


@dataclass(frozen=True)
class _TimedSocket:
    """What http.client uses of a socket; all ends at a deadline, however slowly bytes come."""

    channel: socket.socket
    deadline: float

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self))

    def sendall(self, data: bytes) -> None:
        self.channel.settimeout(_remaining(self.deadline))
        self.channel.sendall(data)

    def close(self) -> None:
        """Leave it open: the response still reads."""


class _TimedReader(io.RawIOBase):
    def __init__(self, timed: _TimedSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._timed.channel.settimeout(_remaining(self._timed.deadline))
        return self._timed.channel.recv_into(buffer)


def _tls(authority: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError):
        raise DownloadFailed("InvalidCA", "the CA is not in PEM format") from None


def _get(connection: HTTPConnection, source: Source, url: SplitResult) -> Answer:
    headers = {
        "Accept": "application/x-protobuf, application/octet-stream;q=0.9",
        "Accept-Encoding": "identity",
        "User-Agent": f"kubectl-sky/{__version__}",
    }
    if source.token:
        headers["Authorization"] = f"Bearer {source.token}"
    if source.etag:
        headers["If-None-Match"] = source.etag
    query = f"?{url.query}" if url.query else ""
    connection.request("GET", f"{url.path or '/'}{query}", headers=headers)
    response = connection.getresponse()
    if response.status == 304 and source.etag:
        return Answer(None, source.etag)
    _check(response)
    data = _read(response)
    etag = response.headers.get("ETag", "")
    return Answer(data, etag if etag.isprintable() and len(etag) <= _MAX_ETAG else "")


def _check(response: HTTPResponse) -> None:
    """Raise DownloadFailed unless the answer is a whole graph."""
    status = response.status
    if 300 <= status < 400:
        raise DownloadFailed("Redirected", f"HTTP {status}: redirects are not followed")
    if status != 200:
        reason = _REASONS.get(status) or ("ServerError" if status >= 500 else "UnexpectedStatus")
        raise DownloadFailed(reason, f"HTTP {status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DownloadFailed("UnexpectedEncoding", "the answer is compressed")
    if response.length is None and not response.chunked:
        why = "neither Content-Length nor chunked: a truncated graph would look complete"
        raise DownloadFailed("UnknownLength", f"the answer has {why}")
    if (response.length or 0) > MAX_BYTES:
        raise DownloadFailed("TooLarge", f"the answer has more than {MAX_BYTES} bytes")


def _read(response: HTTPResponse) -> bytes:
    length, data = response.length, bytearray()
    while chunk := response.read(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_BYTES:
            raise DownloadFailed("TooLarge", f"the answer has more than {MAX_BYTES} bytes")
    if length is not None and len(data) < length:
        raise IncompleteRead(b"")
    return bytes(data)


def _cause(error: Exception) -> str:
    """Return the operating system's words for an error; never a part of the answer."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return "the server does not speak HTTP"
