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
from functools import partial
from threading import Event
from time import monotonic
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import urllib3
from msgspec import Struct
from msgspec.structs import replace
from urllib3.exceptions import HTTPError

from kubectl_sky import __version__
from kubectl_sky.cluster import errors, transport
from kubectl_sky.cluster.backoff import retry_unreachable
from kubectl_sky.cluster.connection import Connection, Target
from kubectl_sky.cluster.encoding import Json, Trimmed, decode, encode
from kubectl_sky.cluster.errors import RequestInfo
from kubectl_sky.cluster.limits import Limits
from kubectl_sky.cluster.transport import Reply, Retries, Stream
from kubectl_sky.errors import ClusterError, Forbidden, Unauthorized, UserError

__all__ = ["Answer", "Connection", "Json", "Session"]

Query = Mapping[str, str] | Sequence[tuple[str, str]]

T = TypeVar("T")

_JSON = "application/json"
_NOT_JSON = "not JSON"
_JSON_HEADERS = {"Accept": _JSON, "Accept-Encoding": "gzip", "Content-Type": _JSON}
_CONNECT_SECONDS = 8.0
_REQUEST_SECONDS = 65.0  # with all retries; the API server's own request timeout is 60
_STREAM_SECONDS = 180.0  # until a stream starts
# Creating these changes nothing: SelfSubjectReview, SelfSubjectAccessReview.
_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
_DATE_RESOLUTION = timedelta(seconds=3)  # a Date has whole seconds, and some servers cache it
_RESTART_SECONDS = 30.0  # seconds in which a restarted server may not have loaded RBAC yet


class Answer(Struct, frozen=True):
    """The answer to an accepted request; `retried` if it was sent more than once.

    `size` is in bytes of JSON.
    """

    status: int
    body: Json
    retried: bool
    size: int = 0


class Outgoing(Struct, frozen=True):
    """A request, before the session adds credentials and timeouts.

    A `repeatable` one is sent again if the connection is lost.
    """

    info: RequestInfo
    query: Query
    headers: Mapping[str, str] | Sequence[tuple[str, str]]
    body: bytes | None = None
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
        self._lost_at = -_RESTART_SECONDS  # monotonic time of the last request without an answer
        self._clock = _Clock()
        self._patience: tuple[Event | None, float | None] | None = None
        for name in (connection.as_user, *connection.as_groups):
            if name and not name.isprintable():
                raise UserError("--as and --as-group take names without control characters")

    @classmethod
    def connect(cls, connection: Connection | None = None) -> Self:
        """Resolve server and credentials without sending a request. Raises ClusterError."""
        connection = connection or Connection()
        return cls(connection, _resolve(connection))

    @property
    def namespace(self) -> str:
        """The namespace: from the flag, else from the context, else `default`."""
        return self._target.namespace

    @property
    def context(self) -> str:
        """The name of the context; `in-cluster` in a pod."""
        return self._target.context

    @property
    def server(self) -> str:
        """The server's URL without a trailing slash."""
        return self._target.server

    @property
    def account(self) -> tuple[str, str]:
        """The server, and the name of the user in the kubeconfig: they name the credentials."""
        return self._target.server, self._target.user

    @property
    def is_for_caller(self) -> bool:
        """Whether a server acts for a caller: nothing is read from the server's own files."""
        return self._connection.anonymous

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        shape: type = dict,
    ) -> Json:
        """Send a request and return the answer, which has the type `shape`. Raises ClusterError."""
        return self.send(method, path, query=query, body=body, headers=headers, shape=shape).body

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        shape: type | Trimmed = dict,
    ) -> Answer:
        """Send a request and return the answer, which has the type `shape`. Raises ClusterError."""
        query = query or {}
        outgoing = Outgoing(
            RequestInfo(method, path, self.server),
            query,
            {**_JSON_HEADERS, **(headers or {})},
            None if body is None else encode(body),
            repeatable=method != "POST" or "dryRun" in query or path.startswith(_REVIEWS),
        )
        send = partial(self._send, outgoing, shape)
        if self._patience and outgoing.repeatable:
            return retry_unreachable(send, *self._patience)
        return send()

    def _send(self, outgoing: Outgoing, shape: type | Trimmed) -> Answer:
        reply = self.open(outgoing)
        for text in _PRACTICE_WARNING.findall(str(reply.headers.get("Warning") or "")):
            self.practice_warnings.setdefault(text)
        return Answer(
            reply.status,
            _decoded(outgoing.info, reply, shape),
            bool(reply.retries and reply.retries.history),
            len(reply.data),
        )

    def stream(self, path: str, query: Mapping[str, str], timeout: float | None = None) -> Stream:
        """Open a streaming answer: an iterator of bytes that any thread may close.

        `timeout` is how many seconds the server may be silent; None for no limit. Raises
        ClusterError when the server refuses the request, and while iterating when the connection
        is lost.
        """
        info = RequestInfo("GET", path, self.server)
        headers = {"Accept": "application/json, */*", "Accept-Encoding": "identity"}
        reply = self.open(Outgoing(info, query, headers, streamed=True, silence=timeout))
        if reply.stream is None or reply.content_type == "text/html":  # a proxy's login page
            raise errors.not_kubernetes(info, _NOT_JSON)
        return Stream(reply.stream, info)

    def open(self, outgoing: Outgoing, attempt: transport.Attempt | None = None) -> Reply:
        """Send a request and return the answer. Raises ClusterError if it is refused, or lost."""
        reply = self.exchange(outgoing, attempt)
        if reply.status >= 300:
            raise self._refused(outgoing.info, reply)
        return reply

    def exchange(self, outgoing: Outgoing, attempt: transport.Attempt | None = None) -> Reply:
        """Send a request and return the answer, whatever its status.

        It is sent again once with fresh credentials if the server returns 401. `attempt` replaces
        the HTTP exchange, for WebSocket handshakes. Raises ClusterError if there is no answer.
        """
        target = self._target
        try:
            reply = self._send_once(outgoing, target, attempt)
            if reply.status == 401 and target.renewable:
                reply = self._send_once(outgoing, self._renewed(target), attempt)
        except (HTTPError, OSError, ValueError) as error:
            self._lost_at = monotonic()
            raise transport.unreachable(outgoing.info, error) from None
        self._clock.set(reply.headers.get("Date", ""))
        if reply.retries and any(retry.error for retry in reply.retries.history):
            self._lost_at = monotonic()
        return reply

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
        """Ask whether the API server is ready. Raises ClusterError.

        An API server that refuses to say is ready to refuse.
        """
        with suppress(Unauthorized, Forbidden):
            self.open(Outgoing(RequestInfo("GET", "/readyz", self.server), {}, {"Accept": "*/*"}))

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
        """Return a session that repeats requests while the server is unreachable.

        It gives up after `seconds`, by default as long as a server may restart, or on `stop`.
        """
        clone = copy(self)
        clone._patience = stop, seconds
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
        clone._cache, clone._lock = {}, threading.Lock()
        clone._limits = Limits(self._connection.requests_per_second)
        clone._target = replace(self._target, authorization=f"Bearer {token}")
        return clone

    def impersonation_headers(self) -> list[tuple[str, str]]:
        """Return the headers of --as and --as-group."""
        users = [self._connection.as_user] if self._connection.as_user else []
        return [
            *(("Impersonate-User", _header(user)) for user in users),
            *(("Impersonate-Group", _header(group)) for group in self._connection.as_groups),
        ]

    def close(self) -> None:
        """Close the idle connections."""
        self._target.client.close()

    def _send_once(
        self, outgoing: Outgoing, target: Target, attempt: transport.Attempt | None
    ) -> Reply:
        assert outgoing.info.path.startswith("/")  # otherwise it could change the host
        query = f"?{urlencode(outgoing.query)}" if outgoing.query else ""
        seconds = self._connection.request_timeout
        request = transport.Request(
            outgoing.info.method,
            f"{target.server}{outgoing.info.path}{query}",
            self._headers(outgoing, target),
            outgoing.body,
            connect=seconds or _CONNECT_SECONDS,
            read=outgoing.silence if outgoing.streamed else seconds or _REQUEST_SECONDS,
            seconds=seconds or (_STREAM_SECONDS if outgoing.streamed else _REQUEST_SECONDS),
            retries=Retries.standard(repeatable=outgoing.repeatable),
            streamed=outgoing.streamed,
        )
        # The log of a silent container answers only with its first line.
        with self._limits.stream() if outgoing.streamed else self._limits.request():
            return transport.exchange(target.client, request, attempt)

    def _headers(self, outgoing: Outgoing, target: Target) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict(outgoing.headers)
        headers["User-Agent"] = f"kubectl-sky/{__version__}"
        if target.authorization:
            headers["Authorization"] = target.authorization
        elif self._connection.server_user:
            headers["X-User"] = _header(self._connection.server_user)
        headers.extend(self.impersonation_headers())
        return headers

    def _refused(self, info: RequestInfo, reply: Reply) -> ClusterError:
        if reply.status < 400:
            return errors.redirected(info, reply.status, reply.headers.get("Location", ""))
        problem = errors.refused(info, reply.status, reply.data)
        if reply.status in (401, 403) and monotonic() - self._lost_at < _RESTART_SECONDS:
            return errors.restarting(info, problem)
        return problem

    def _renewed(self, used: Target) -> Target:
        """Resolve the credentials again. Raises ClusterError."""
        with self._lock:
            if self._target is used:  # otherwise another thread has renewed them
                self._target = _resolve(self._connection)
            return self._target


class _Clock:
    """How far the API server's clock is ahead of ours."""

    offset = timedelta()

    def set(self, date: str) -> None:
        """Set it by the Date of an answer; one that is missing or invalid changes nothing."""
        with suppress(ValueError, TypeError, OverflowError):
            offset = parsedate_to_datetime(date).astimezone(UTC) - datetime.now(UTC)
            self.offset = offset if abs(offset) > _DATE_RESOLUTION else timedelta()


def _resolve(connection: Connection) -> Target:
    # Importing the Kubernetes client takes half of the start-up time: do it only to connect.
    from kubectl_sky.cluster import kubeconfig  # noqa: PLC0415

    return kubeconfig.resolve(connection)


def _header(text: str) -> str:
    """Return UTF-8 bytes as Latin-1 text, which http.client encodes as it is."""
    return text.encode().decode("latin-1")


def _decoded(info: RequestInfo, reply: Reply, shape: type | Trimmed) -> Json:
    if not reply.content_type.endswith("json"):
        raise errors.not_kubernetes(info, _NOT_JSON)
    try:
        return decode(reply.data, shape)
    except ValueError as error:
        raise errors.not_kubernetes(info, str(error)) from None
