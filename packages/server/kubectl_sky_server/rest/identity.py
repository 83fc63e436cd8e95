"""Authenticate callers: a bearer token, a session of the dashboard, or X-User on loopback.

A token is reviewed by the API server in a request that carries this token, and every request for
the caller carries it, too: RBAC decides. The server's own credentials never do.
"""

import hashlib
import re
import threading
from base64 import urlsafe_b64decode as b64decode
from base64 import urlsafe_b64encode as b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Annotated

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from fastapi import Depends, Query, Request
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import HTTPConnection

from kubectl_sky.actions import namespaces
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    NotFound,
    SkyError,
    Unauthorized,
    UserError,
)
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import owners
from kubectl_sky.words.owners import User
from kubectl_sky_server.rest.config import SESSION_KEYS, Config
from kubectl_sky_server.rest.limits import Rates
from kubectl_sky_server.rest.problems import LOG, Rejected

SESSION_HEADER = "X-Kubectl-Sky-Session"

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_REVIEW_SECONDS = 60.0  # a review counts this long
_RECENT_SECONDS = 10.0  # and for an open stream so long
_MAX_TOKENS = 1000  # tokens whose review is kept
_SESSION_SECONDS = 12 * 3600
_MAX_CLOSED = 10_000  # sessions that were closed before they expired
_ANONYMOUS = "system:anonymous"
_CODE_SECONDS = 600.0
_NEW_LINK = 'run "kubectl sky dashboard" again'
_PASTE_TOKEN = "paste a token of the cluster, on one line"
_LOG_IN = "send the header: Authorization: Bearer TOKEN"
_LOG_IN_OR_NAME = "send the header: X-User: NAME, or: Authorization: Bearer TOKEN"

MAX_NAMESPACE = 63
NAMESPACE_PATTERN = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"


class Caller(Struct, frozen=True):
    """An authenticated user, and a session with this user's credentials only."""

    user: User
    groups: tuple[str, ...]
    session: Session
    credential: bytes = b""  # a digest of the token; empty for the server's own credentials

    @property
    def connection(self) -> Connection:
        """The session's cluster: a file must not choose a context of the server's kubeconfig."""
        return Connection(context=self.session.context or self.session.server, anonymous=True)

    def in_namespace(self, namespace: str) -> "Caller":
        return replace(self, session=self.session.in_namespace(namespace))

    def scope(self, *, all_users: bool = False, all_namespaces: bool = False) -> Scope:
        namespace = None if all_namespaces else self.session.namespace
        user = None if all_users else self.user
        return Scope(namespace, user)


class Credential(Struct, frozen=True):
    """What a request shows of its caller, whom the API server may not know."""

    token: str  # empty for the server's own credentials
    review: Callable[[], Caller]  # raises Unauthorized, ClusterError, Rejected


@dataclass
class _Review:
    """Who has a token, and until when that counts."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    caller: Caller | None = None


class Sessions:
    """The sessions of the dashboard: an encrypted token, which the page sends in a header.

    Every server with the same keys accepts it. It is no cookie: browsers send cookies to every port
    of a host, and on loopback other ports belong to other users. The token None stands for the
    server's own credentials: the owner of a dashboard.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        """Encrypt with the first key, or a random one. Raises UserError for an invalid key."""
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys or (Fernet.generate_key(),)])
        except ValueError:
            what = f"${SESSION_KEYS}: invalid key"
            hint = "make one with: openssl rand -base64 32"
            raise UserError(what, hint) from None
        self._lock = threading.Lock()
        self._closed: OrderedDict[bytes, float] = OrderedDict()  # until when, oldest first

    def open(self, token: str | None) -> str:
        """Start a session and return its id."""
        return self._fernet.encrypt((token or "").encode()).decode()

    def token(self, session_id: str) -> str | None:
        """Return the token of a session. Raises Unauthorized if it is invalid or expired."""
        token: str | None = None
        try:
            if b64encode(b64decode(session_id)) != session_id.encode():
                raise InvalidToken  # a closed session must not have other spellings
            token = self._fernet.decrypt(session_id, _SESSION_SECONDS).decode()
        except (InvalidToken, ValueError):
            pass
        if token is None or _digest(session_id) in self._closed:
            raise Unauthorized("the session of the browser has expired", "log in again")
        return token or None

    def close(self, session_id: str) -> str | None:
        """End a session in this process, and return its token."""
        try:
            token = self.token(session_id)
        except Unauthorized:
            return None
        now = monotonic()
        with self._lock:
            self._closed[_digest(session_id)] = now + _SESSION_SECONDS
            while len(self._closed) > _MAX_CLOSED or next(iter(self._closed.values())) <= now:
                self._closed.popitem(last=False)
        return token


class LoginCode:
    """The code of a one-time login link; it expires when it is used, and after a while."""

    def __init__(self, code: str) -> None:
        self._lock = threading.Lock()
        self._digest = _digest(code) if code else None
        self._until = monotonic() + _CODE_SECONDS

    def check(self, code: str) -> None:
        """Raise Unauthorized if this is not the code, or it has expired or was used."""
        if self._digest != _digest(code) or monotonic() >= self._until:
            raise Unauthorized("the login link has expired or was used", _NEW_LINK)

    def redeem(self, code: str) -> None:
        with self._lock:
            self.check(code)
            self._digest = None


class Identities:
    """Authenticate requests; reviews of tokens are cached for a minute."""

    def __init__(self, config: Config) -> None:
        self.sessions = Sessions(config.session_keys)
        self._config = config
        self._lock = threading.Lock()
        self._reviews: OrderedDict[bytes, _Review] = OrderedDict()
        self._login_code = LoginCode(config.login_code)
        self._anonymous: Session | None = None
        self._own: Session | None = None

    def find(self, connection: HTTPConnection, *, sessions: bool = True) -> Credential:
        """Return the credential of a request. Raises Unauthorized, Rejected."""
        _check_origin(connection)  # a proxy in front may add a header for a browser
        headers = connection.headers.getlist("authorization")
        if headers:
            return self._of_token(_bearer_token(headers))
        if sessions and SESSION_HEADER in connection.headers:
            token = self.sessions.token(connection.headers[SESSION_HEADER])
            return Credential("", self.owner) if token is None else self._of_token(token)
        if self._config.trust_x_user and "x-user" in connection.headers:
            return Credential("", partial(self._trust, connection.headers.getlist("x-user")))
        hint = _LOG_IN_OR_NAME if self._config.trust_x_user else _LOG_IN
        raise Unauthorized("this server answers only with credentials", hint)

    def find_login(self, connection: HTTPConnection, token: str, code: str) -> Credential:
        """Return the credential of a log-in: a token or a one-time code.

        Raises Unauthorized, Rejected.
        """
        _check_origin(connection)
        if code:
            return Credential("", partial(self._redeem, code))
        if not _TOKEN.fullmatch(token):
            raise Unauthorized("this is not a bearer token", _PASTE_TOKEN)
        return self._of_token(token)

    def knows(self, credential: Credential) -> bool:
        """Return whether a review has accepted the token, or there is none to review."""
        with self._lock:
            review = self._reviews.get(_digest(credential.token))
        return not credential.token or (review is not None and review.caller is not None)

    def _of_token(self, token: str) -> Credential:
        return Credential(token, partial(self.of_token, token))

    def _redeem(self, code: str) -> Caller:
        self._login_code.check(code)
        caller = self.owner()  # first: if the cluster does not answer, the code stays valid
        self._login_code.redeem(code)
        return caller

    def of_token(self, token: str) -> Caller:
        """Return the caller with a token. Raises Unauthorized, ClusterError."""
        key = _digest(token)
        with self._lock:
            review = self._reviews.setdefault(key, _Review())
            self._reviews.move_to_end(key)
            while len(self._reviews) > _MAX_TOKENS:
                self._reviews.popitem(last=False)

        with review.lock:
            if monotonic() >= review.until:
                try:
                    known = review.caller
                    session = known.session if known else self.anonymous().with_token(token)
                    self._renew(review, session, key)
                except SkyError:
                    if not review.caller:  # wrong tokens must not displace those of callers
                        self._forget(key)
                    raise

            assert review.caller
            return review.caller

    def confirm(self, caller: Caller) -> None:
        """Raise Unauthorized if the API server does not accept the token of a caller any more.

        A review of the last seconds counts, so that the streams of a token share it.
        """
        if not caller.credential:
            return
        with self._lock:
            review = self._reviews.get(caller.credential) or _Review(caller=caller)
        with review.lock:
            if monotonic() >= review.until - _REVIEW_SECONDS + _RECENT_SECONDS:
                try:
                    self._renew(review, caller.session, caller.credential)
                except Unauthorized:
                    self._forget(caller.credential)
                    raise

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._reviews.pop(key, None)

    def owner(self) -> Caller:
        """Return the owner of the server's own credentials."""
        session = self._own_session()
        identity = session.cached("identity", CoreManager(session).identity)
        name = self._config.owner or identity.name
        return Caller(owners.name_owner(name), identity.groups, session)

    def anonymous(self) -> Session:
        """Return a session without credentials, for the health of the API server."""
        with self._lock:
            if self._anonymous is None:
                connection = replace(
                    self._config.connection,
                    token=None,
                    as_user=None,
                    as_uid=None,
                    as_groups=(),
                    request_timeout=self._config.limits.request_seconds,
                    anonymous=True,
                )
                self._anonymous = self._config.connect(connection).impatient()
            return self._anonymous

    def _own_session(self) -> Session:
        with self._lock:
            if self._own is None:
                seconds = self._config.limits.request_seconds
                connection = replace(self._config.connection, request_timeout=seconds)
                self._own = self._config.connect(connection).impatient()
            return self._own

    def open_session(self, connection: HTTPConnection, credential: Credential) -> str:
        """Start a session instead of that of the request; return its id."""
        self.sessions.close(connection.headers.get(SESSION_HEADER, ""))
        return self.sessions.open(credential.token or None)

    def log_out(self, connection: HTTPConnection) -> None:
        """End the session of a request and forget its token. Raises Rejected."""
        _check_origin(connection)
        token = self.sessions.close(connection.headers.get(SESSION_HEADER, ""))
        if token:
            self._forget(_digest(token))

    def _renew(self, review: _Review, session: Session, key: bytes) -> None:
        """Ask the API server who has the token of a session. Raises Unauthorized, ClusterError."""
        try:
            identity = CoreManager(session).identity()
            if identity.name in ("", _ANONYMOUS):
                raise Unauthorized("the cluster does not know this token", "log in again")
            user = owners.name_owner(identity.name)
        except Unauthorized:
            review.caller = None
            raise
        except (Forbidden, NotFound) as error:
            hint = "the server needs Kubernetes 1.28 or newer"
            raise ClusterError(f"the cluster cannot review tokens: {error.what}", hint) from None
        except UserError as error:
            raise Unauthorized(error.what, error.hint) from None

        review.caller = Caller(user, identity.groups, session, key)
        review.until = monotonic() + _REVIEW_SECONDS

    def _trust(self, names: list[str]) -> Caller:
        """Return the caller that X-User names, with the server's own credentials."""
        if len(names) > 1:
            raise Rejected(400, "the header X-User is given more than once")
        try:
            name = names[0].encode("latin-1").decode()
        except UnicodeError:
            raise Rejected(400, "the header X-User is not UTF-8") from None
        return Caller(owners.name_owner(name), (), self._own_session())


def _bearer_token(headers: list[str]) -> str:
    if len(headers) > 1:
        what = "the header Authorization is given more than once"
        raise Unauthorized(what, "send a cookie of the proxy or a bearer token, not both")
    scheme, _, token = headers[0].partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
        raise Unauthorized("the header Authorization has no bearer token", _LOG_IN)
    return token


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _check_origin(connection: HTTPConnection) -> None:
    """Refuse requests that another site lets a browser send. Raises Rejected."""
    headers = connection.headers
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    own_origin = origin is None or origin.partition("://")[2] == headers.get("host")
    if (site or "none") not in ("same-origin", "none") or not own_origin:
        raise Rejected(403, "a browser sent this request for another site")


async def _caller(
    request: Request,
    namespace: Annotated[
        str | None,
        Query(
            description="Namespace (default: that of the server).",
            max_length=MAX_NAMESPACE,
            pattern=NAMESPACE_PATTERN,
        ),
    ] = None,
) -> Caller:
    """Return the caller that Guard has authenticated; the session is for the namespace."""
    caller: Caller = request.state.caller
    rates: Rates = request.app.state.rates
    rates.take(caller.user.name)
    LOG.debug("%s %s by %r", request.method, request.url.path, caller.user.name)
    return caller.in_namespace(namespace) if namespace else caller


def _scope(
    caller: Annotated[Caller, Depends(_caller)],
    all_users: Annotated[bool, Query(description="Include other users' objects.")] = False,
    all_namespaces: Annotated[bool, Query(description="Include all namespaces.")] = False,
) -> Scope:
    return caller.scope(all_users=all_users, all_namespaces=all_namespaces)


AnyCaller = Annotated[Caller, Depends(_caller)]
AnyScope = Annotated[Scope, Depends(_scope)]


def _namespaces(
    caller: AnyCaller,
    my_namespaces: Annotated[
        bool,
        Query(
            description="The namespace, and those of `users add` for you and your groups,"
            " as far as you may list tasks there."
        ),
    ] = False,
) -> list[str]:
    own = namespaces.list_own(caller.session) if my_namespaces else []
    return own or [caller.session.namespace]


Namespaces = Annotated[list[str], Depends(_namespaces)]


def _scopes(scope: AnyScope, names: Namespaces) -> list[Scope]:
    if scope.namespace is None:
        return [scope]
    return [replace(scope, namespace=name) for name in names]


Scopes = Annotated[list[Scope], Depends(_scopes)]
