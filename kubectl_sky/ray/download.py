"""Download a graph over HTTP with a bearer token.

The server is not trusted: the time and the size are limited, redirects and compression are
refused, and no text of an answer gets into a message. Nor does the token.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kubectl_sky import __version__
from kubectl_sky.ray.model.graph import MAX_BYTES

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


async def download(source: Source, trusted_hosts: Collection[str] = ()) -> Answer:
    """Download a graph. Raises DownloadFailed.

    `trusted_hosts` may be reached by plain HTTP, and at addresses of this machine or its link.
    """
    url = check_url(source.url, trusted_hosts)
    if source.token and not _TOKEN.match(source.token):
        raise DownloadFailed("InvalidToken", "the token has spaces or control characters")
    trusted = _is_trusted(url, trusted_hosts)
    try:
        async with _client(source, trusted) as client:
            return await _get(client, source)
    except TimeoutError:
        why = f"no complete answer within {source.timeout:g} seconds"
        raise DownloadFailed("Timeout", why) from None
    except aiohttp.ClientSSLError as error:
        raise DownloadFailed("TLSFailed", _tls_message(error)) from None
    except aiohttp.InvalidURL:
        raise DownloadFailed("InvalidURL", "spec.source.url is not a URL") from None
    except aiohttp.ClientPayloadError:
        raise DownloadFailed("Truncated", "the connection was closed before the end") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
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


class _GuardedResolver(AbstractResolver):
    """Resolve names to allowed addresses only; the connection uses exactly these."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._resolver.resolve(host, port, family)
        allowed = [item for item in addresses if is_public_or_private(item["host"])]
        if addresses and not allowed:
            raise OSError("its address is not allowed")
        return allowed

    async def close(self) -> None:
        await self._resolver.close()


def _client(source: Source, trusted: bool) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=_tls(source.authority),
            resolver=ThreadedResolver() if trusted else _GuardedResolver(),
            force_close=True,
            limit=1,
        ),
        timeout=aiohttp.ClientTimeout(total=source.timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


def _tls(authority: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError):
        raise DownloadFailed("InvalidCA", "the CA is not in PEM format") from None


async def _get(client: aiohttp.ClientSession, source: Source) -> Answer:
    headers = {
        "Accept": "application/x-protobuf, application/octet-stream;q=0.9",
        "Accept-Encoding": "identity",
        "User-Agent": f"kubectl-sky/{__version__}",
    }
    if source.token:
        headers["Authorization"] = f"Bearer {source.token}"
    if source.etag:
        headers["If-None-Match"] = source.etag
    async with client.get(source.url, headers=headers, allow_redirects=False) as response:
        if response.status == 304 and source.etag:
            return Answer(None, source.etag)
        _check(response)
        data = await _read(response)
    etag = response.headers.get("ETag", "")
    return Answer(data, etag if etag.isprintable() and len(etag) <= _MAX_ETAG else "")


def _check(response: aiohttp.ClientResponse) -> None:
    """Raise DownloadFailed unless the answer is a whole graph."""
    status = response.status
    if 300 <= status < 400:
        raise DownloadFailed("Redirected", f"HTTP {status}: redirects are not followed")
    if status != 200:
        reason = _REASONS.get(status) or ("ServerError" if status >= 500 else "UnexpectedStatus")
        raise DownloadFailed(reason, f"HTTP {status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DownloadFailed("UnexpectedEncoding", "the answer is compressed")
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    if response.content_length is None and not chunked:
        why = "neither Content-Length nor chunked: a truncated graph would look complete"
        raise DownloadFailed("UnknownLength", f"the answer has {why}")
    if (response.content_length or 0) > MAX_BYTES:
        raise DownloadFailed("TooLarge", f"the answer has more than {MAX_BYTES} bytes")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_BYTES:
            response.close()
            raise DownloadFailed("TooLarge", f"the answer has more than {MAX_BYTES} bytes")
        await asyncio.sleep(0)  # lets the timeout in, however fast the server sends
    return bytes(data)


def _tls_message(error: aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "certificate_error", None) or error.os_error
    why = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "TLS failed"
    return f"cannot verify {error.host}: {why}"


def _cause(error: Exception) -> str:
    """Return the operating system's words for an error; never a part of the answer."""
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError):
        return str(error.strerror or error)
    return "the server does not speak HTTP" if _is_garbled(error) else "the connection was lost"


def _is_garbled(error: Exception) -> bool:
    return isinstance(error, aiohttp.ClientResponseError | ValueError)
