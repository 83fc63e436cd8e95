"""Limit what callers use: hosts, bodies and rates."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubectl_sky.cluster.connection import KUBERNETES_PATH
from kubectl_sky.server import problems
from kubectl_sky.server.config import Config
from kubectl_sky.server.problems import Rejected

_BURST_SECONDS = 10
_MAX_BUCKETS = 10_000
_ANY_HOST = frozenset({"/healthz", "/metrics", "/readyz"})  # scrapers and probes use the pod's IP

_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Rates:
    """A token bucket for each key, such as a user; bounded in number."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(per_second * _BURST_SECONDS, 1.0)
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, time

    def take(self, key: str) -> None:
        """Count a request. Raises Rejected with 429 if there were too many."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                raise self._too_many(level)
            self._buckets[key] = level - 1, monotonic()
            self._buckets.move_to_end(key)
            while len(self._buckets) > _MAX_BUCKETS:
                self._buckets.popitem(last=False)

    def give_back(self, key: str) -> None:
        """Do not count a request that `take` has counted."""
        with self._lock:
            self._buckets[key] = min(self._level(key) + 1, self._burst), monotonic()

    def _level(self, key: str) -> float:
        level, changed_at = self._buckets.get(key, (self._burst, 0.0))
        return min(self._burst, level + (monotonic() - changed_at) * self._per_second)

    def _too_many(self, level: float) -> Rejected:
        seconds = int((1 - level) / self._per_second) + 1
        return Rejected(429, "too many requests", f"try again in {seconds} s", seconds)


class Streams:
    """Count the open streams of each caller."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of open streams."""
        with self._lock:
            return self._open.total()

    @contextmanager
    def opened(self, key: str) -> Iterator[None]:
        """Count a stream while the context lasts. Raises Rejected with 429 over the limit."""
        with self._lock:
            if self._open[key] >= self._limit:
                raise Rejected(429, f"more than {self._limit} open streams", "close some", 5)
            self._open[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]


class _Answer:
    """Add headers to an answer, and replace it if it fails before it starts."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False

    async def send(self, message: Message) -> None:
        """Send one message."""
        self._started = True
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, scope: Scope, receive: Receive, response: Response) -> None:
        """Send an error, unless an answer has started."""
        if self._started:
            return
        if scope["type"] == "websocket":
            await self._send({"type": "websocket.close", "code": 1008})
        else:
            await response(scope, receive, self.send)


class Guard:
    """Check hosts and bodies before a request is handled, and add headers to each answer."""

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self._app = app
        self._config = config
        self._bodies = _Bodies(config.limits.all_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        limit = self._body_limit(scope["path"])
        try:
            self._check(scope, limit)
            with self._bodies.limited(receive, limit) as limited:
                await self._app(scope, limited, answer.send)
        except Rejected as error:
            await answer.refuse(scope, receive, problems.answer(error))
        except ConnectionError:  # a stream was lost: end the answer without its last chunk
            return
        except Exception as error:  # noqa: BLE001 -- the door that reports bugs
            await answer.refuse(scope, receive, problems.bug(error))

    def _body_limit(self, path: str) -> int:
        limits = self._config.limits
        return (
            limits.proxy_body_bytes if path.startswith(f"{KUBERNETES_PATH}/") else limits.body_bytes
        )

    def _check(self, scope: Scope, limit: int) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        checked = self._config.hosts and scope["path"] not in _ANY_HOST
        if checked and (len(hosts) != 1 or not self._accepts(hosts[0])):
            raise Rejected(421, "the Host header is not a name of this server", "see --allow-host")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > limit:
            raise too_large(limit)

    def _accepts(self, host: str) -> bool:
        name = host.lower()
        if not name.endswith("]"):  # [::1]:8000 and [::1]
            name, _, port = name.rpartition(":") if ":" in name else (name, "", "")
            if port and not port.isdecimal():
                return False
        return name in self._config.hosts


def too_large(limit: int) -> Rejected:
    """Return the error for a body that is larger than the limit."""
    return Rejected(413, f"the body is larger than {limit} bytes")


class _Bodies:
    """Count the bytes of bodies, which are in memory while their requests are handled."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0  # only the event loop changes it

    @contextmanager
    def limited(self, receive: Receive, limit: int) -> Iterator[Receive]:
        """Count a body while the context lasts; it may be sent in chunks."""
        size = 0

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                length = len(message.get("body", b""))
                size += length
                self._total += length
                if size > limit:
                    raise too_large(limit)
                if self._total > self._most:
                    raise Rejected(503, "the server has too many requests", "try again", 1)
            return message

        try:
            yield receive_counted
        finally:
            self._total -= size
