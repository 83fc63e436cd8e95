"""A small HTTP server for signed events: each triggers a download of one RayServeGraph.

    POST /v1/namespaces/NAMESPACE/rayservegraphs/NAME/events
    Kubectl-Sky-Timestamp: 1764000000
    Kubectl-Sky-Signature: sha256=<HMAC-SHA256 of "TIMESTAMP.NAMESPACE/NAME." + body, in hex>

Answers: 202 accepted, 401 for a wrong signature or an unknown graph alike, 409 for a replay.
"""

import asyncio
import hashlib
import hmac
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

MAX_AGE_SECONDS = 300  # of a signature
_MAX_BODY = 64 * 1024
_MAX_REQUESTS = 16  # with whole bodies, at the same time
_MAX_BODIES = 64  # that are read at the same time
_BODY_SECONDS = 5.0
_IDLE_SECONDS = 10.0  # of a connection, from its start
_LINGERING_SECONDS = 1.0  # of a connection whose body is not read
_REMEMBERED = 100_000  # signatures, against replays
_REMEMBERED_PER_NAMESPACE = 1_000
_MIN_SECRET = 16  # bytes
_TIMESTAMP = re.compile(r"[0-9]{1,12}\Z")
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}\Z")
_TIMESTAMP_HEADER = "Kubectl-Sky-Timestamp"
_SIGNATURE_HEADER = "Kubectl-Sky-Signature"
_ROUTE = "/v1/namespaces/{namespace}/rayservegraphs/{name}/events"

Key = tuple[str, str]  # namespace and name


@dataclass(frozen=True)
class Hooks:
    """What the server calls: the secret of a graph (empty if there is none), and the trigger."""

    secret: Callable[[Key], Awaitable[bytes]]
    trigger: Callable[[Key], None]


def sign(secret: bytes, timestamp: str, key: Key, body: bytes) -> str:
    """Return the signature of an event."""
    text = f"{timestamp}.{key[0]}/{key[1]}.".encode() + body
    return f"sha256={hmac.new(secret, text, hashlib.sha256).hexdigest()}"


def is_fresh(headers: Mapping[str, str], now: float) -> bool:
    """Check the form of the headers, and the age of the timestamp."""
    timestamp = headers.get(_TIMESTAMP_HEADER, "")
    if not _TIMESTAMP.match(timestamp) or not _SIGNATURE.match(headers.get(_SIGNATURE_HEADER, "")):
        return False
    return abs(now - int(timestamp)) <= MAX_AGE_SECONDS


def is_signed(headers: Mapping[str, str], secret: bytes, key: Key, body: bytes) -> bool:
    """Check the signature of an event; a short secret signs nothing."""
    expected = sign(secret, headers[_TIMESTAMP_HEADER], key, body)
    equal = hmac.compare_digest(expected, headers[_SIGNATURE_HEADER])
    return equal and len(secret) >= _MIN_SECRET


class Replays:
    """Signatures that were accepted recently; one namespace cannot lock out the others."""

    def __init__(self) -> None:
        self._accepted: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._counts = Counter[str]()  # by namespace

    def add(self, namespace: str, signature: str, now: float) -> bool:
        """Remember a signature; False if it was accepted before, or too many were."""
        while self._accepted and next(iter(self._accepted.values())) < now - 2 * MAX_AGE_SECONDS:
            (sender, _), _ = self._accepted.popitem(last=False)
            self._counts -= Counter((sender,))  # removes those at 0
        if (namespace, signature) in self._accepted or len(self._accepted) >= _REMEMBERED:
            return False
        if self._counts[namespace] >= _REMEMBERED_PER_NAMESPACE:
            return False
        self._accepted[namespace, signature] = now
        self._counts[namespace] += 1
        return True


class Server:
    """The HTTP server; `start` and `stop` run in the event loop of the controllers."""

    def __init__(self, hooks: Hooks, clock: Callable[[], float] = time.time) -> None:
        self._hooks = hooks
        self._clock = clock
        self._replays = Replays()
        self._running = 0
        self._reading = deque[asyncio.Task[bytes]]()
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_post(_ROUTE, self._event)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
            max_line_size=2048,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, backlog=64).start()

    async def stop(self) -> None:
        """Close the server."""
        if self._runner:
            await self._runner.cleanup()

    async def _event(self, request: web.Request) -> web.Response:
        if not is_fresh(request.headers, self._clock()):
            return _refused()
        body = await self._body(request)
        if body is None:
            return web.Response(status=408, text="the body is incomplete\n")
        if self._running >= _MAX_REQUESTS:
            return web.Response(status=503, text="too many requests\n")
        self._running += 1
        try:
            return await self._answer(request, body)
        finally:
            self._running -= 1

    async def _body(self, request: web.Request) -> bytes | None:
        """Return the body, or None if it is late.

        Nobody has proved anything yet, so many slow senders take each other's places, not those of
        others: the oldest one goes.
        """
        if len(self._reading) >= _MAX_BODIES:
            self._reading.popleft().cancel()
        task = asyncio.create_task(request.read())
        self._reading.append(task)
        try:
            await asyncio.wait({task}, timeout=_BODY_SECONDS)
            return task.result() if task.done() and not task.cancelled() else None
        finally:
            task.cancel()
            if task in self._reading:
                self._reading.remove(task)

    async def _answer(self, request: web.Request, body: bytes) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["name"])
        secret = await self._hooks.secret(key)
        if not secret or not is_signed(request.headers, secret, key, body):
            return _refused()
        if not self._replays.add(key[0], request.headers[_SIGNATURE_HEADER], self._clock()):
            return web.Response(status=409, text="this event was accepted before\n")
        self._hooks.trigger(key)
        return web.Response(status=202, text="accepted\n")


def _refused() -> web.Response:
    return web.Response(status=401, text="the signature is not valid\n")
