"""A small HTTP server for signed events: each triggers a download of one RayServeGraph.

    POST /v1/namespaces/NAMESPACE/rayservegraphs/NAME/events
    Kubectl-Sky-Timestamp: 1764000000
    Kubectl-Sky-Signature: sha256=<HMAC-SHA256 of "TIMESTAMP.NAMESPACE/NAME." + body, in hex>

Answers: 202 accepted, 401 for a wrong signature or an unknown graph alike, 409 for a replay.
"""

import hashlib
import hmac
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from threading import BoundedSemaphore, Lock
from typing import NamedTuple

from msgspec import Struct

from kubectl_sky.controllers.http_server import Handler, Server

MAX_AGE_SECONDS = 300  # of a signature
_MAX_BODY = 64 * 1024
_MAX_DIGITS = 9
_MAX_REQUESTS = 16  # with whole bodies, at the same time
_BODY_SECONDS = 5.0
_REMEMBERED = 100_000  # signatures, against replays
_REMEMBERED_PER_NAMESPACE = 1_000
_MIN_SECRET = 16  # bytes
_TIMESTAMP = re.compile(r"[0-9]{1,12}\Z")
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}\Z")
_TIMESTAMP_HEADER = "Kubectl-Sky-Timestamp"
_SIGNATURE_HEADER = "Kubectl-Sky-Signature"
_ROUTE = re.compile(r"/v1/namespaces/([a-z0-9.-]+)/rayservegraphs/([a-z0-9.-]+)/events\Z")


class Key(NamedTuple):
    """A RayServeGraph."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"rayservegraph {self.namespace}/{self.name}"


class Hooks(Struct, frozen=True):
    """What the server calls: the secret of a graph (empty if there is none), and the trigger."""

    secret: Callable[[Key], bytes]
    trigger: Callable[[Key], None]


def sign(secret: bytes, timestamp: str, key: Key, body: bytes) -> str:
    """Return the signature of an event."""
    text = f"{timestamp}.{key.namespace}/{key.name}.".encode() + body
    return f"sha256={hmac.new(secret, text, hashlib.sha256).hexdigest()}"


class Signature(Struct, frozen=True):
    """The headers of an event."""

    timestamp: str
    text: str

    def is_fresh(self, now: float) -> bool:
        """Check the form, and the age of the timestamp."""
        if not _TIMESTAMP.match(self.timestamp) or not _SIGNATURE.match(self.text):
            return False
        return abs(now - int(self.timestamp)) <= MAX_AGE_SECONDS

    def matches(self, secret: bytes, key: Key, body: bytes) -> bool:
        """Check the signature of an event; a short secret signs nothing."""
        equal = hmac.compare_digest(sign(secret, self.timestamp, key, body), self.text)
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


class WebhookServer(Server):
    """The HTTP server; `stop` closes it."""

    def __init__(
        self, host: str, port: int, hooks: Hooks, clock: Callable[[], float] = time.time
    ) -> None:
        """Listen. Raises UserError."""
        super().__init__(host, port, _Event, "ray_graphs.webhook: ")
        self.hooks = hooks
        self.clock = clock
        self.running = BoundedSemaphore(_MAX_REQUESTS)
        self._replays, self._adding = Replays(), Lock()

    def is_new(self, namespace: str, signature: str) -> bool:
        """Remember a signature; return whether it is the first time."""
        with self._adding:
            return self._replays.add(namespace, signature, self.clock())


class _Event(Handler):
    server: WebhookServer

    def do_POST(self) -> None:  # noqa: N802 - as http.server calls it
        match = _ROUTE.match(self.path.partition("?")[0])
        headers = (_TIMESTAMP_HEADER, _SIGNATURE_HEADER)
        signature = Signature(*(self.headers.get(name, "") for name in headers))
        if not match:
            self.reply(404, "not found")
        elif not signature.is_fresh(self.server.clock()):
            self._refuse()
        elif (body := self._body()) is not None:
            self.server.accepted(self.connection)
            self._answer(Key(*match.groups()), signature, body)

    def _refuse(self) -> None:
        self.reply(401, "the signature is not valid")

    def _body(self) -> bytes | None:
        """Return the body; None if it is too large or late, which is answered."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self.reply(411, "the body needs a Content-Length")
        elif len(length) > _MAX_DIGITS or int(length) > _MAX_BODY:
            self.reply(413, "the body is too large")
        else:
            body = self._read(int(length))
            if body is not None:
                return body
            self.reply(408, "the body is incomplete")
        return None

    def _read(self, length: int) -> bytes | None:
        """Read a body within its time, however slowly it comes."""
        deadline, body = time.monotonic() + _BODY_SECONDS, b""
        while len(body) < length:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            self.connection.settimeout(remaining)
            try:
                chunk = self.rfile.read1(length - len(body))
            except TimeoutError:
                return None
            if not chunk:
                return None
            body += chunk
        return body

    def _answer(self, key: Key, signature: Signature, body: bytes) -> None:
        if not self.server.running.acquire(blocking=False):
            self.reply(503, "too many requests")
            return
        try:
            secret = self.server.hooks.secret(key)
        finally:
            self.server.running.release()
        if not secret or not signature.matches(secret, key, body):
            self._refuse()
        elif not self.server.is_new(key.namespace, signature.text):
            self.reply(409, "this event was accepted before")
        else:
            self.server.hooks.trigger(key)
            self.reply(202, "accepted")
