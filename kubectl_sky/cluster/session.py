"""A session with one API server: JSON requests with pooling and retries.

The other modules of this package pass paths and dicts to a Session. A Session is thread-safe.
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from threading import Event
from time import monotonic
from typing import Any, Generic, Self, TypeVar, overload
from urllib.parse import urlencode

import urllib3
from msgspec import Struct
from msgspec.structs import replace
from urllib3.exceptions import HTTPError

from kubectl_sky import __version__
from kubectl_sky.cluster import errors
from kubectl_sky.cluster.backoff import TIMEOUT_SECONDS, Backoff, Outage, is_answer
from kubectl_sky.cluster.connection import Connection, Target
from kubectl_sky.cluster.encoding import WHOLE, Json, Whole, decode
from kubectl_sky.cluster.errors import RequestInfo
from kubectl_sky.cluster.http_trace import Trace
from kubectl_sky.cluster.limits import Limits
from kubectl_sky.cluster.transport import (
    MAX_RETRIES,
    Attempt,
    Attempts,
    Reply,
    Request,
    Stream,
)
from kubectl_sky.errors import ClusterError, Forbidden, Unauthorized, Unprocessed, Unreachable

__all__ = ["Answer", "Connection", "Json", "Session"]

Query = Mapping[str, str] | Sequence[tuple[str, str]]

T = TypeVar("T")

_NOT_JSON = "not JSON"
_JSON_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}
_JSON_BODY_HEADERS = {**_JSON_HEADERS, "Content-Type": "application/json"}
_CONNECT_SECONDS = 8.0
_REQUEST_SECONDS = 65.0  # with all retries; the API server's own request timeout is 60
_STREAM_SECONDS = 180.0  # until a stream starts
# Creating these changes nothing: SelfSubjectReview, SelfSubjectAccessReview.
_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
_AGGREGATED = f"/apis/{errors.METRICS}/"  # may be away while the API server is not
_DATE_RESOLUTION = timedelta(seconds=3)  # a Date has whole seconds, and some servers cache it


class Answer(Struct, Generic[T], frozen=True):
    """The answer to an accepted request; `retried` if it was sent more than once."""

    status: int
    body: T
    retried: bool
    size: int = 0  # bytes of JSON


class Outgoing(Struct, frozen=True):
    """A request, before the session adds credentials and timeouts.

    A `repeatable` one is sent again if the connection is lost.
    """

    info: RequestInfo
    query: Query
    headers: Mapping[str, str] | Sequence[tuple[str, str]]
    body: object = None
    streamed: bool = False
    repeatable: bool = True
    silence: float | None = None  # seconds a stream may be silent; None for no limit


# The warn-agent of the header is who warns: the practice cluster names itself, others write "-".
_PRACTICE_WARNING = re.compile(r'299 practice-cluster "((?:[^"\\]|\\.)*)"')


class Session:
    """A connection to one API server as one user. Thread-safe."""

    def __init__(self, connection: Connection, target: Target) -> None:
        self._connection = connection
        self._target = target
        self._limits = Limits(connection.requests_per_second)
        self._lock = threading.Lock()
        self._cache: dict[str, Future[Any]] = {}
        self.practice_warnings: dict[str, None] = {}  # of the practice cluster, each once
        self._lost_at = -TIMEOUT_SECONDS  # monotonic time of the last request without an answer
        self._ready_at = 0.0  # since when the server is known to be ready
        self._clock = _Clock()
        self._outage = Outage()
        self._patience: tuple[Event, float | None] | None = None
        self._timeout = connection.request_timeout or TIMEOUT_SECONDS  # seconds; 0 for no waits

    @classmethod
    def connect(cls, connection: Connection | None = None) -> Self:
        """Resolve server and credentials without sending a request. Raises ClusterError."""
        return cls(connection or Connection(), _resolve(connection or Connection()))

    @property
    def namespace(self) -> str:
        """The namespace: from the flag, else from the context, else `default`."""
        return self._target.namespace

    @property
    def context(self) -> str:
        return self._target.context

    @property
    def server(self) -> str:
        return self._target.server

    @property
    def flags(self) -> str:
        """The flags of another command for the same place, as far as they are needed."""
        given = {"-n": self._connection.namespace, "--context": self._connection.context}
        return "".join(f" {flag} {value}" for flag, value in given.items() if value)

    @property
    def account(self) -> tuple[object, ...]:
        """The server, the name of the user in the kubeconfig, and the user that it acts as."""
        return self._target.server, self._target.user, self._target.impersonation

    @property
    def is_for_caller(self) -> bool:
        """Whether a server acts for a caller: nothing is read from the server's own files."""
        return self._connection.anonymous

    @overload
    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        shape: type[T],
    ) -> Answer[T]: ...
    @overload
    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        shape: Whole = WHOLE,
    ) -> Answer[Json]: ...
    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        shape: type[T] | Whole = WHOLE,
    ) -> Answer[T] | Answer[Json]:
        """Send a request and return the answer, whose body has the type `shape`.

        The given body is sent as JSON unless it is bytes. While the server is away, a request is
        repeated for as long as a server may restart, unless it may have had an effect that another
        would double. Raises ClusterError.
        """
        query = query or {}
        defaults = _JSON_HEADERS if body is None else _JSON_BODY_HEADERS
        repeatable = method != "POST" or "dryRun" in query or path.startswith(_REVIEWS)
        info = RequestInfo(method, path, self.server, _name_of(body))
        headers = {**defaults, **(headers or {})}
        outgoing = Outgoing(info, query, headers, body, repeatable=repeatable)
        retries = self.retries()

        while True:
            reply = None
            sent_at = monotonic()
            try:
                reply = self._check(info, self.exchange(outgoing), sent_at)
                for text in _PRACTICE_WARNING.findall(str(reply.headers.get("Warning") or "")):
                    self.practice_warnings.setdefault(text)
                data: Any = _decode(info, reply, shape)
                return Answer(reply.status, data, reply.retried, len(reply.data))
            except Unreachable as error:
                is_safe = outgoing.repeatable or isinstance(error, Unprocessed)
                is_other_server = reply is not None or path.startswith(_AGGREGATED)
                if not is_safe or (is_other_server and not self._patience):
                    raise
                self.wait_or_raise(retries, error)

    def retries(self) -> Backoff:
        """Return how to repeat what begins now, for `wait_or_raise`."""
        if self._patience:
            return Backoff(*self._patience)
        seconds = self._timeout if self._outage.has_answered else 0
        return Backoff(self._outage.given_up, seconds, monotonic())

    def wait_or_raise(self, retries: Backoff, error: Unreachable) -> None:
        """Wait before the next attempt, or raise the error if the server is away for too long."""
        if not self._patience:
            try:
                self._outage.wait_or_raise(retries, error)
            except KeyboardInterrupt:
                Outage.interrupt()
                raise
        elif self._patience[0].is_set():
            raise error
        else:
            retries.wait_or_raise(error)

    def stream(self, path: str, query: Mapping[str, str], timeout: float | None = None) -> Stream:
        """Open a streaming answer: an iterator of bytes that any thread may close.

        `timeout` is how many seconds the server may be silent; None for no limit. Raises
        ClusterError, also while iterating when the connection is lost.
        """
        info = RequestInfo("GET", path, self.server)
        headers = {"Accept": "application/json, */*", "Accept-Encoding": "identity"}
        reply = self.open(Outgoing(info, query, headers, streamed=True, silence=timeout))
        if reply.stream is None or reply.content_type == "text/html":  # a proxy's login page
            raise errors.not_kubernetes(info, _NOT_JSON)
        return Stream(reply.stream, info)

    def open(self, outgoing: Outgoing, attempt: Attempt | None = None) -> Reply:
        """Send a request and return the answer. Raises ClusterError if it is refused, or lost."""
        sent_at = monotonic()
        return self._check(outgoing.info, self.exchange(outgoing, attempt), sent_at)

    def exchange(self, outgoing: Outgoing, attempt: Attempt | None = None) -> Reply:
        """Send a request and return the answer, whatever its status.

        After 401 it is sent once more, with fresh credentials. `attempt` replaces the HTTP
        exchange, for WebSocket handshakes. Raises ClusterError if there is no answer.
        """
        target = self._target
        attempts = self._attempts(outgoing)
        renewed = False

        with self._limits.start(streamed=outgoing.streamed):
            while True:
                request = self._request(outgoing, target, attempts.deadline)
                client = target.client
                try:
                    with Trace(request) as trace:
                        reply = attempt(client, request) if attempt else client.send(request)
                        trace.log_answer(reply.status, reply.headers, reply.data)
                    if reply.status == 401 and target.renewable and not renewed:
                        target = self._renew(target)
                        renewed = True
                        attempts = self._attempts(outgoing)
                    elif not attempts.repeat_after(reply):
                        break
                except (HTTPError, OSError, ValueError) as error:
                    final = attempts.wait_after(error)
                    if final:
                        self._lost_at = monotonic()
                        raise errors.unreachable(outgoing.info, final, target.proxy) from None

        self._clock.set(reply.headers.get("Date", ""))
        if attempts.lost:
            self._lost_at = monotonic()
        return replace(reply, retried=attempts.retried)

    def cached(self, name: str, fetch: Callable[[], T]) -> T:
        """Call `fetch` once per session and cache its result.

        An error is raised in the threads that wait for this call, too; the next call tries again.
        """
        own = Future[T]()
        with self._lock:
            shared: Future[T] = self._cache.get(name, own)
            if shared.cancelled() or (shared.done() and shared.exception()):
                shared = own
            self._cache[name] = shared
        if shared is own:
            try:
                own.set_result(fetch())
            except ClusterError as error:
                own.set_exception(error)
            finally:
                own.cancel()  # after a bug or Ctrl-C, unless it is done
        return shared.result()

    def now(self) -> datetime:
        """Return the API server's time, by its last answer: this machine's clock may be wrong."""
        return datetime.now(UTC) + self._clock.offset

    def check_ready(self) -> None:
        """Raise ClusterError unless the API server is ready; one that refuses to say is ready."""
        with suppress(Unauthorized, Forbidden):
            self.open(self._readiness)

    @property
    def _readiness(self) -> Outgoing:
        return Outgoing(RequestInfo("GET", "/readyz", self.server), {}, {"Accept": "*/*"})

    def in_namespace(self, namespace: str) -> Self:
        """Return a session for another namespace, with the same connections and credentials."""
        clone = copy(self)
        clone._connection = replace(self._connection, namespace=namespace)
        clone._target = replace(self._target, namespace=namespace)
        return clone

    @property
    def workers(self) -> tuple[str, ...]:
        """The contexts of MultiKueue's worker clusters; empty if this cluster is one of them."""
        workers = self._connection.workers
        return () if self.context in workers else workers

    def worker(self, context: str) -> Self:
        """Return a session with a worker cluster, in the same namespace. Raises ClusterError."""
        connection = replace(self._connection, context=context, namespace=self.namespace)
        return self.connect(replace(connection, cluster=None, server=None, token=None, workers=()))

    def patient(self, stop: Event | None = None, seconds: float | None = None) -> Self:
        """Return a session that repeats requests while the server is unreachable, until `stop`.

        By default, `seconds` are as long as a server may restart.
        """
        clone = copy(self)
        clone._patience = stop or Event(), seconds
        return clone

    def impatient(self) -> Self:
        """Return a session that does not wait for a server that is away: its caller tries again."""
        clone = copy(self)
        clone._timeout = 0
        return clone

    def with_token(self, token: str) -> Self:
        """Return a session with only this token as credentials, over the same connections.

        This session must be anonymous: client certificates belong to connections. Raises
        ClusterError if the server is not encrypted.
        """
        assert self._connection.anonymous
        if not self.server.lower().startswith("https://"):
            raise ClusterError(f"tokens are not sent to {self.server}", "use an https:// server")
        clone = copy(self)
        clone._cache = {}
        clone._lock = threading.Lock()
        clone._limits = Limits(self._connection.requests_per_second)
        clone._target = replace(self._target, authorization=f"Bearer {token}")
        return clone

    def act_as(self, other: "Session") -> None:
        """Send all further requests with the token of another session with the same server."""
        with self._lock:
            self._target = replace(self._target, authorization=other._target.authorization)

    def close(self) -> None:
        self._target.client.close()

    def _attempts(self, outgoing: Outgoing) -> Attempts:
        default = _STREAM_SECONDS if outgoing.streamed else _REQUEST_SECONDS
        seconds = self._connection.request_timeout or default
        retries = 0 if self._outage.is_hopeless else MAX_RETRIES
        return Attempts(outgoing.info.method, seconds, retries, repeatable=outgoing.repeatable)

    def _request(self, outgoing: Outgoing, target: Target, deadline: float) -> Request:
        assert outgoing.info.path.startswith("/")  # otherwise it could change the host
        words = urlencode(outgoing.query, errors="surrogateescape")  # names of files are bytes
        query = f"?{words}" if words else ""
        return Request(
            outgoing.info.method,
            f"{target.server}{outgoing.info.path}{query}",
            self._headers(outgoing, target),
            outgoing.body,
            self._connection.request_timeout or _CONNECT_SECONDS,
            deadline,
            outgoing.silence,
            outgoing.streamed,
        )

    def _headers(self, outgoing: Outgoing, target: Target) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict(outgoing.headers)
        if outgoing.body is None:  # the Kubernetes client takes few types without a body
            headers.discard("Content-Type")
        if not target.compressed:
            headers["Accept-Encoding"] = "identity"
        headers["User-Agent"] = f"kubectl-sky/{__version__}"

        if target.authorization:
            headers["Authorization"] = target.authorization
        elif self._connection.server_user:
            headers["X-User"] = _header(self._connection.server_user)

        if target.impersonation:  # never together with that of a caller
            for name in [name for name in headers if name.lower().startswith("impersonate-")]:
                headers.discard(name)
        for name, value in target.impersonation:
            headers.add(name, _header(value))
        return headers

    def _check(self, info: RequestInfo, reply: Reply, sent_at: float) -> Reply:
        """Raise ClusterError if a request was refused, or redirected."""
        if reply.status < 300:
            self._outage.end()
            return reply
        if reply.status < 400:
            raise errors.refuse_redirect(info, reply.status, reply.headers.get("Location", ""))
        problem = errors.refuse(info, reply.status, reply.data)
        if reply.status in (401, 403) and self._may_lack_rights(sent_at):
            raise errors.restarting(info, problem)
        if is_answer(problem):
            self._outage.end()
        raise problem

    def _may_lack_rights(self, sent_at: float) -> bool:
        """Whether the server may not have loaded RBAC when a request was sent.

        A restarted one answers before, and is ready when it has: half a minute later if it is busy.
        """
        was_ready = self._lost_at < self._ready_at <= sent_at
        if was_ready or sent_at - self._lost_at >= TIMEOUT_SECONDS:
            return False
        with suppress(ClusterError):
            if self.exchange(self._readiness).status < 300:
                self._ready_at = monotonic()
        return True

    def _renew(self, used: Target) -> Target:
        with self._lock:
            if self._target is used:  # otherwise another thread has renewed them
                self._target = _resolve(self._connection)
            return self._target


class _Clock:
    offset = timedelta()  # how far the API server's clock is ahead of ours

    def set(self, date: str) -> None:
        """Set it by the Date of an answer; one that is missing or invalid changes nothing."""
        with suppress(ValueError, TypeError, OverflowError):
            offset = parsedate_to_datetime(date).astimezone(UTC) - datetime.now(UTC)
            self.offset = offset if abs(offset) > _DATE_RESOLUTION else timedelta()


def _resolve(connection: Connection) -> Target:
    # Importing the Kubernetes client takes half of the start-up time: do it only to connect.
    from kubectl_sky.cluster import kubeconfig  # noqa: PLC0415

    return kubeconfig.resolve(connection)


def _name_of(body: object) -> str:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _header(text: str) -> str:
    """Return UTF-8 bytes as Latin-1 text, which http.client encodes as it is."""
    return text.encode().decode("latin-1")


def _decode(info: RequestInfo, reply: Reply, shape: type[T] | Whole) -> T | Json:
    try:
        if not reply.content_type.endswith("json"):
            raise ValueError(_NOT_JSON)
        return decode(reply.data, shape)
    except ValueError as error:
        raise errors.not_kubernetes(info, str(error)) from None
