"""Download a graph over HTTP with a bearer token.

The server is not trusted: the time and the size are limited, redirects and compression are
refused, and no text of an answer gets into a message. Nor does the token.
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from kubectl_sky.cluster import web
from kubectl_sky.cluster.web import Fetch, FetchFailed
from kubectl_sky_server.ray.model_graph import MAX_BYTES

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

    is_trusted = _is_trusted(url, trusted_hosts)
    request = Fetch(
        url.geturl(),
        headers=_headers(source),
        seconds=source.timeout,
        max_bytes=MAX_BYTES,
        authority=source.authority,
        allows=lambda address: is_trusted or is_public_or_private(address),
    )

    try:
        answer = web.fetch(request)
    except FetchFailed as error:
        verb = {"ConnectionFailed": "reach", "TLSFailed": "verify"}.get(error.reason)
        why = f"cannot {verb} {url.hostname}: {error.what}" if verb else error.what
        raise DownloadFailed(error.reason, why) from None

    if answer.status == 304 and source.etag:
        return Answer(None, source.etag)
    _check(answer)
    etag = answer.headers.get("ETag", "")
    if not etag.isprintable() or len(etag) > _MAX_ETAG:
        etag = ""
    return Answer(answer.data, etag)


def _headers(source: Source) -> dict[str, str]:
    headers = {
        "Accept": "application/x-protobuf, application/octet-stream;q=0.9",
        "Accept-Encoding": "identity",
    }
    if source.token:
        headers["Authorization"] = f"Bearer {source.token}"
    if source.etag:
        headers["If-None-Match"] = source.etag
    return headers


def check_url(text: str, trusted_hosts: Collection[str]) -> SplitResult:
    """Return the parts of a URL that may be fetched. Raises DownloadFailed."""
    try:
        url = urlsplit(text)
        host = url.hostname or ""
        port = url.port
    except ValueError:
        raise DownloadFailed("InvalidURL", "spec.source.url is not a URL") from None
    if not host or port == 0 or not text.isascii() or not text.isprintable() or " " in text:
        raise DownloadFailed("InvalidURL", "spec.source.url is not a URL")
    if url.username is not None or url.password is not None:
        raise DownloadFailed("InvalidURL", "spec.source.url has a user: use spec.source.token")

    trusted = _is_trusted(url, trusted_hosts)
    if url.scheme != "https" and not (trusted and url.scheme == "http"):
        rule = "http only for hosts in the setting ray_graphs.trusted_hosts"
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
    return all(map(_is_allowed, _find_reached(ipaddress.ip_address(text.partition("%")[0]))))


def _find_reached(address: _Address) -> tuple[_Address, ...]:
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


def _check(answer: web.Answer) -> None:
    """Raise DownloadFailed unless the answer is a whole graph."""
    status = answer.status
    headers = answer.headers
    if 300 <= status < 400:
        raise DownloadFailed("Redirected", f"HTTP {status}: redirects are not followed")
    if status != 200:
        reason = _REASONS.get(status) or ("ServerError" if status >= 500 else "UnexpectedStatus")
        raise DownloadFailed(reason, f"HTTP {status}")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DownloadFailed("UnexpectedEncoding", "the answer is compressed")

    length = headers.get("Content-Length", "")
    if not length and headers.get("Transfer-Encoding", "").lower() != "chunked":
        why = "neither Content-Length nor chunked: a truncated graph would look complete"
        raise DownloadFailed("UnknownLength", f"the answer has {why}")
    if len(answer.data) > MAX_BYTES or (length.isdecimal() and int(length) > MAX_BYTES):
        raise DownloadFailed("TooLarge", f"the answer has more than {MAX_BYTES} bytes")
