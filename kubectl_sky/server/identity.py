"""Authenticate callers: a bearer token, a browser's session, or X-User on loopback.

A token is reviewed by the API server in a request that carries this token, and every request for
the caller carries it, too: RBAC decides. The server's own credentials never do.
"""

import hashlib
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.requests import HTTPConnection

from kubectl_sky import users
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotFound, SkyError, Unauthorized, UserError
from kubectl_sky.server.config import Config
from kubectl_sky.server.limits import Rates
from kubectl_sky.server.problems import LOG, Rejected
from kubectl_sky.users import User

COOKIE = "kubectl-sky-session"
CSRF_HEADER = "X-Requested-By"
CSRF_VALUE = "kubectl-sky"

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_REVIEW_SECONDS = 60.0  # a review counts this long
_REFUSAL_SECONDS = 1.0  # and a refusal this long
_MAX_TOKENS = 1000  # tokens whose review is kept
BROWSER_SECONDS = 12 * 3600
_MAX_BROWSERS = 1000
_MAX_BROWSERS_OF_USER = 20
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ANONYMOUS = "system:anonymous"
_CODE_SECONDS = 600.0
_NEW_LINK = 'run "kubectl sky dashboard" again'
_PASTE_TOKEN = "paste a token of the cluster, on one line"
_LOG_IN = "send the header: Authorization: Bearer TOKEN"

NAMESPACE_PATTERN = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"


@dataclass(frozen=True)
class Caller:
    """An authenticated user, and a session with this user's credentials only."""

    user: User
    groups: tuple[str, ...]
    session: Session

    def in_namespace(self, namespace: str) -> "Caller":
        """Return the caller with a session for another namespace."""
        return replace(self, session=self.session.in_namespace(namespace))

    def scope(self, *, all_users: bool = False, all_namespaces: bool = False) -> Scope:
        """Return the tasks and volumes that a request is about."""
        namespace = None if all_namespaces else self.session.namespace
        return Scope(namespace, None if all_users else self.user)


@dataclass
class _Review:
    """The result of a review, and until when it counts."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    caller: Caller | None = None
    error: ClusterError | None = None


@dataclass(frozen=True)
class _BrowserSession:
    """What a cookie stands for, and until when; the user's name only limits their number."""

    token: str | None
    user: str
    until: float


class Browsers:
    """The sessions of browsers: a random cookie stands for a token.

    The token None stands for the server's own credentials: the owner of a dashboard.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, _BrowserSession] = OrderedDict()  # oldest first

    def open(self, token: str | None, user: str) -> str:
        """Start a session and return the value of its cookie; each user may have some."""
        cookie, now = secrets.token_urlsafe(32), monotonic()
        with self._lock:
            expired = [key for key, session in self._sessions.items() if session.until <= now]
            own = [key for key, session in self._sessions.items() if session.user == user]
            for key in (*expired, *own[: -_MAX_BROWSERS_OF_USER + 1]):
                self._sessions.pop(key, None)
            session = _BrowserSession(token, user, now + BROWSER_SECONDS)
            self._sessions[_digest(cookie)] = session
            while len(self._sessions) > _MAX_BROWSERS:
                self._sessions.popitem(last=False)
        return cookie

    def token(self, cookie: str) -> str | None:
        """Return the token of a session. Raises Unauthorized if it is unknown or expired."""
        with self._lock:
            session = self._sessions.get(_digest(cookie))
        if session is None or monotonic() >= session.until:
            raise Unauthorized("the session of the browser has expired", "log in again")
        return session.token

    def close(self, cookie: str) -> str | None:
        """End a session and return its token."""
        with self._lock:
            session = self._sessions.pop(_digest(cookie), None)
        return session.token if session else None


class LoginCode:
    """The code of a one-time login link; it expires when it is used, and after a while."""

    def __init__(self, code: str) -> None:
        self._lock = threading.Lock()
        self._digest = _digest(code) if code else None
        self._until = monotonic() + _CODE_SECONDS

    def redeem(self, code: str) -> bool:
        """Return whether this is the code, and use it up."""
        with self._lock:
            valid = self._digest == _digest(code) and monotonic() < self._until
            if valid:
                self._digest = None
            return valid


class Identities:
    """Authenticate requests; reviews of tokens are cached for a minute."""

    def __init__(self, config: Config) -> None:
        self.browsers = Browsers()
        self._config = config
        self._lock = threading.Lock()
        self._reviews: OrderedDict[bytes, _Review] = OrderedDict()
        self._failures = Rates(1.0)
        self._login_code = LoginCode(config.login_code)
        self._anonymous: Session | None = None
        self._own: Session | None = None

    def authenticate(self, connection: HTTPConnection, *, cookies: bool = True) -> Caller:
        """Return the caller of a request. Raises Unauthorized, ClusterError, Rejected."""
        _check_origin(connection)  # a proxy in front may add a header for a browser
        headers = connection.headers.getlist("authorization")
        if headers:
            token = _bearer_token(headers)
            if self._is_known(token):  # wrong tokens of others behind the same proxy do not count
                return self.of_token(token)
            return self._with_failures_limited(connection, lambda: self.of_token(token))
        cookie = cookie_of(connection) if cookies else ""
        if cookie:
            check_browser(connection)
            session_token = self.browsers.token(cookie)
            return self.owner() if session_token is None else self.of_token(session_token)
        if self._config.trust_x_user and "x-user" in connection.headers:
            return self._trusted(connection.headers.getlist("x-user"))
        raise Unauthorized("this server answers only with credentials", _LOG_IN)

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
                self._renew(review, token)
            if review.error:
                raise type(review.error)(review.error.what, review.error.hint)
            assert review.caller
            return review.caller

    def owner(self) -> Caller:
        """Return the owner of the server's own credentials."""
        session = self._own_session()
        identity = session.cached("identity", CoreManager(session).identity)
        name = self._config.owner or identity.name
        return Caller(users.named(name), identity.groups, session)

    def anonymous(self) -> Session:
        """Return a session without credentials, for the health of the API server."""
        with self._lock:
            if self._anonymous is None:
                connection = replace(
                    self._config.connection,
                    token=None,
                    as_user=None,
                    as_groups=(),
                    request_timeout=self._config.limits.request_seconds,
                    anonymous=True,
                )
                self._anonymous = self._config.connect(connection)
            return self._anonymous

    def _own_session(self) -> Session:
        with self._lock:
            if self._own is None:
                seconds = self._config.limits.request_seconds
                connection = replace(self._config.connection, request_timeout=seconds)
                self._own = self._config.connect(connection)
            return self._own

    def log_in(self, connection: HTTPConnection, token: str = "", code: str = "") -> str:
        """Start a browser's session with a token or a one-time code, and return its cookie.

        Raises Unauthorized, ClusterError, Rejected.
        """
        check_browser(connection)
        token = token.strip()
        caller = self._with_failures_limited(connection, lambda: self._log_in(token, code))
        return self.browsers.open(None if code else token, caller.user.name)

    def log_out(self, connection: HTTPConnection) -> None:
        """End a browser's session and forget its token. Raises Rejected."""
        check_browser(connection)
        token = self.browsers.close(cookie_of(connection))
        if token:
            with self._lock:
                self._reviews.pop(_digest(token), None)

    def _log_in(self, token: str, code: str) -> Caller:
        if not code:
            if not _TOKEN.fullmatch(token):
                raise Unauthorized("this is not a bearer token", _PASTE_TOKEN)
            return self.of_token(token)
        if not self._login_code.redeem(code):
            raise Unauthorized("the login link has expired or was used", _NEW_LINK)
        return self.owner()

    def _with_failures_limited(
        self, connection: HTTPConnection, authenticate: Callable[[], Caller]
    ) -> Caller:
        """Return the caller; wrong credentials of one address are limited."""
        address = connection.client.host if connection.client else ""
        self._failures.take(address)
        try:
            caller = authenticate()
        except Unauthorized:
            raise
        except SkyError:
            self._failures.give_back(address)
            raise
        self._failures.give_back(address)
        return caller

    def _is_known(self, token: str) -> bool:
        """Return whether the last review of a token has accepted it."""
        with self._lock:
            review = self._reviews.get(_digest(token))
        return review is not None and review.caller is not None

    def _renew(self, review: _Review, token: str) -> None:
        """Ask the API server who has this token."""
        review.error = None
        try:
            session = review.caller.session if review.caller else self.anonymous().with_token(token)
            identity = CoreManager(session).identity()
            if identity.name in ("", _ANONYMOUS):
                raise Unauthorized("the cluster does not know this token", "log in again")
            user = users.named(identity.name)
        except Unauthorized as error:
            review.caller, review.error = None, error
            review.until = monotonic() + _REFUSAL_SECONDS
            return
        except (Forbidden, NotFound) as error:
            hint = "the server needs Kubernetes 1.28 or newer"
            raise ClusterError(f"the cluster cannot review tokens: {error.what}", hint) from None
        except UserError as error:
            raise Unauthorized(error.what, error.hint) from None
        review.caller = Caller(user, identity.groups, session)
        review.until = monotonic() + _REVIEW_SECONDS

    def _trusted(self, names: list[str]) -> Caller:
        """Return the caller that X-User names, with the server's own credentials."""
        if len(names) > 1:
            raise Rejected(400, "the header X-User is given more than once")
        try:
            name = names[0].encode("latin-1").decode()
        except UnicodeError:
            raise Rejected(400, "the header X-User is not UTF-8") from None
        return Caller(users.named(name), (), self._own_session())


def _bearer_token(headers: list[str]) -> str:
    scheme, _, token = headers[0].partition(" ")
    token = token.strip(" ")
    if len(headers) > 1 or scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
        raise Unauthorized("the header Authorization has no bearer token", _LOG_IN)
    return token


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def cookie_of(connection: HTTPConnection) -> str:
    """Return the cookie of a browser's session; empty if there is none."""
    return connection.cookies.get(cookie_name(connection), "")


def cookie_name(connection: HTTPConnection) -> str:
    """Return the name of the cookie, with the port: browsers send cookies to all ports of a host.

    Without it, a login at one dashboard would end the session at another.
    """
    port = connection.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


def _check_origin(connection: HTTPConnection) -> None:
    """Refuse requests that another site lets a browser send. Raises Rejected."""
    headers = connection.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    own_origin = origin is None or origin.partition("://")[2] == headers.get("host")
    if (site or "none") not in ("same-origin", "none") or not own_origin:
        raise Rejected(403, "a browser sent this request for another site")


def check_browser(connection: HTTPConnection) -> None:
    """Refuse requests of other sites, and changes that a form could send. Raises Rejected."""
    _check_origin(connection)
    unsafe = connection.scope.get("method", "GET") not in _SAFE_METHODS
    if unsafe and connection.headers.get(CSRF_HEADER) != CSRF_VALUE:
        raise Rejected(
            403, "a request with a cookie needs a header", f"{CSRF_HEADER}: {CSRF_VALUE}"
        )


def _caller(
    request: Request,
    namespace: Annotated[
        str | None,
        Query(
            description="Namespace (default: that of the server).",
            max_length=63,
            pattern=NAMESPACE_PATTERN,
        ),
    ] = None,
) -> Caller:
    """Authenticate a request; the session is for the namespace of the query."""
    identities: Identities = request.app.state.identities
    caller = identities.authenticate(request)
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
