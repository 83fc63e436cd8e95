"""A session with one API server: raw JSON over a pool of connections, with retries.

The rest of the folder speaks paths and dicts to a Session. A Session may be used by many threads
at once.
"""

import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Self
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from kubectl_sky import __version__
from kubectl_sky.cluster import failures, kubeconfig, problems
from kubectl_sky.cluster.body import encoded
from kubectl_sky.cluster.call import Call
from kubectl_sky.cluster.connection import Connection, Target
from kubectl_sky.cluster.decode import Json, decoded
from kubectl_sky.cluster.joined import joined
from kubectl_sky.cluster.retries import Retries
from kubectl_sky.cluster.stream import Stream
from kubectl_sky.cluster.wire import Upgrade, Wire
from kubectl_sky.errors import ClusterError
from kubectl_sky.values import dataclass

__all__ = ["Answer", "Connection", "Json", "Session"]

Query = Mapping[str, str] | Sequence[tuple[str, str]]

_JSON = "application/json"
_CONNECT_SECONDS = 8.0
_READ_SECONDS = 65.0  # the API server gives up on a request after 60
_UNREADY = 30.0  # seconds in which one that has started again may not yet know everybody's rights


@dataclass(frozen=True)
class Answer:
    """What the server answered to a request that it accepted; `retried` if it was sent again."""

    status: int
    body: Json
    date: str
    retried: bool


@dataclass(frozen=True)
class _Request:
    call: Call
    query: Query
    headers: dict[str, str]
    data: bytes | None
    read: float | None
    streamed: bool = False
    repeatable: bool = True


class Session:
    """One API server, as one user."""

    def __init__(self, connection: Connection, target: Target) -> None:
        self._connection = connection
        self._target = target
        self._lock = threading.Lock()
        self._transport = _transport(target)
        self._lost = -_UNREADY  # when the server did not answer, by the monotonic clock

    @classmethod
    def connect(cls, connection: Connection | None = None) -> Self:
        """Choose server and credentials; nothing is sent yet. Raises ClusterError."""
        connection = connection or Connection()
        return cls(connection, kubeconfig.locate(connection))

    @property
    def namespace(self) -> str:
        """The flag's namespace, else the context's, else `default`."""
        return self._target.namespace

    @property
    def context(self) -> str:
        """The context's name; `in-cluster` inside a pod."""
        return self._target.context

    @property
    def server(self) -> str:
        """The server's URL, without a slash at its end."""
        return self._target.server

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = _JSON,
    ) -> Json:
        """Send a request and return the JSON of the answer. Raises ClusterError."""
        call = Call(method, path, self.server)
        return self.send(call, query=query, body=body, content_type=content_type).body

    def send(
        self,
        call: Call,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        shape: type | None = None,
    ) -> Answer:
        """Send a call and return the whole answer; of a list, what `shape` has of its items.

        Raises ClusterError.
        """
        data = None if body is None else encoded(body)
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "Content-Type": content_type}
        read = self._connection.request_timeout or _READ_SECONDS
        response = self._open(_Request(call, query or {}, headers, data, read))
        return Answer(
            response.status,
            _decoded(call, response.data, shape),
            response.headers.get("Date", ""),
            bool(response.retries and response.retries.history),
        )

    def stream(self, path: str, query: Mapping[str, str], timeout: float | None = None) -> Stream:
        """Open a long answer: an iterator of bytes that any thread may close.

        `timeout` is how many seconds the server may stay silent; None is for ever.
        Raises ClusterError when the server refuses, and while iterating when the line is lost.
        """
        call = Call("GET", path, self.server)
        headers = {"Accept": "application/json, */*", "Accept-Encoding": "identity"}
        request = _Request(call, query, headers, None, timeout, streamed=True)
        return Stream(self._open(request), call)

    def upgrade(self, path: str, query: Query, protocols: Sequence[str]) -> Wire:
        """Open a websocket that speaks one of the protocols. Raises ClusterError."""
        call = Call("GET", path, self.server)
        asked = Upgrade(protocols)
        read = self._connection.request_timeout or _READ_SECONDS
        request = _Request(call, query, asked.headers, None, read, streamed=True, repeatable=False)
        return asked.accepted(self._open(request), call)

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.clear()

    def _open(self, request: _Request) -> urllib3.BaseHTTPResponse:
        """Send, and once more with fresh credentials when the server no longer knows the old."""
        used = self._transport
        try:
            response = self._once(request, used)
            if response.status == 401 and self._renew(used):
                response.close()
                response = self._once(request, self._transport)
            if response.retries and any(tried.error for tried in response.retries.history):
                self._lost = monotonic()
            if response.status >= 400:
                problem = problems.refused(request.call, response.status, response.data)
                response.release_conn()
                if response.status in (401, 403) and monotonic() - self._lost < _UNREADY:
                    raise failures.unready(request.call, problem)
                raise problem
        except HTTPError as error:
            self._lost = monotonic()
            raise failures.unreachable(request.call, error) from None
        return response

    def _once(self, request: _Request, transport: urllib3.PoolManager) -> urllib3.BaseHTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = urllib3.HTTPHeaderDict(request.headers | self._identity())
        for group in self._connection.as_groups:
            headers.add("Impersonate-Group", group)
        connect = self._connection.request_timeout or _CONNECT_SECONDS
        return transport.request(
            request.call.method,
            f"{self.server}{request.call.path}{query}",
            headers=headers,
            body=request.data,
            retries=Retries.standard(
                request.headers.get("Content-Type", ""), repeatable=request.repeatable
            ),
            timeout=urllib3.Timeout(connect=connect, read=request.read),
            preload_content=not request.streamed,
            redirect=False,
        )

    def _identity(self) -> dict[str, str]:
        """The headers that say who asks; runs the credential plugin when its token is ending."""
        headers = {"User-Agent": f"kubectl-sky/{__version__}"}
        with self._lock:
            bearer = self._target.credentials.bearer()
        if bearer:
            headers["Authorization"] = bearer
        if self._connection.as_user:
            headers["Impersonate-User"] = self._connection.as_user
        return headers

    def _renew(self, used: urllib3.PoolManager) -> bool:
        """Read the credentials again after a 401; False if that cannot help."""
        if not self._target.renewable:
            return False
        with self._lock:
            if self._transport is used:  # else another thread has renewed them already
                self._target = kubeconfig.locate(self._connection)
                self._transport = _transport(self._target)
        return True


def _transport(target: Target) -> urllib3.PoolManager:
    if not target.credentials.verified:  # asked for: a warning a request says nothing new
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        return joined(target.credentials.pool())
    except (HTTPError, OSError, ValueError) as error:
        raise ClusterError(f"cannot use the connection's settings: {error}") from None


def _decoded(call: Call, data: bytes, shape: type | None) -> Json:
    try:
        return decoded(data, shape)
    except ValueError:
        raise problems.not_kubernetes(call) from None
