"""Check each request before it is handled: its host, its caller and the size of its body."""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubectl_sky.words.names import KUBERNETES_PATH
from kubectl_sky_server.rest import audit, problems, proxy
from kubectl_sky_server.rest.admission import Admission
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.identity import Identities
from kubectl_sky_server.rest.metrics import PROBES
from kubectl_sky_server.rest.problems import Rejected

_ANY_HOST = PROBES  # scrapers and kubelets use the pod's IP
_LOGIN = frozenset({"/login", "/logout"})
_PUBLIC = _ANY_HOST | _LOGIN | {"/", "/openapi.json", "/ui"}
_PUBLIC_FOLDERS = ("/ui/", "/schemas/")
_CLOSING = (400, 408, 411)  # the end of the request is not known

_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def too_large(limit: int) -> Rejected:
    return Rejected(413, f"the body is larger than {limit} bytes")


def _is_chunked(scope: Scope) -> bool:
    return "transfer-encoding" in Headers(scope=scope)


class _Exchange:
    """One request and its answer: bounds the body, and sends an error unless an answer started."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, config: Config) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._config = config
        self._most = config.limits.body_bytes_of(scope["path"])
        self._size = 0
        self._has_body = scope["type"] == "http"
        self._deadline = asyncio.get_running_loop().time() + config.limits.body_seconds
        self._started = False
        self._refusal: Rejected | None = None

    async def receive(self) -> Message:
        """Receive a message; the size and the time of a body are bounded. Raises Rejected."""
        if not self._has_body:  # what follows is the end of the connection
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._refuse(Rejected(408, "the body of the request took too long")) from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > self._most:
                raise self._refuse(too_large(self._most))
            self._has_body = message.get("more_body", False)
        return message

    def _refuse(self, error: Rejected) -> Rejected:
        self._refusal = error  # FastAPI turns errors of reading a body into its own
        return error

    async def send(self, message: Message) -> None:
        if self._refusal and not self._started:
            return  # `finish` sends the error
        if message["type"].endswith("http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        if not self._started:
            audit.write(self._config, self._scope, message)
            caller = self._scope.get("state", {}).get("caller")
            if caller and self._scope.get("method", "GET") not in ("GET", "HEAD"):
                self._scope["app"].state.lists.settle(caller)
        self._started = True
        await self._send(message)

    async def finish(self, error: Exception | None = None) -> None:
        """Send an error, unless an answer has started."""
        error = error or self._refusal
        self._refusal = None
        if error and not self._started:
            answer = self._answer(error)
            is_bomb = _is_chunked(self._scope) and not audit.user_of(self._scope)
            if self._has_body and (answer.status_code in _CLOSING or is_bomb):
                answer.headers["Connection"] = "close"
            await answer(self._scope, self._receive, self.send)

    def _answer(self, error: Exception) -> Response:
        is_proxied = self._scope["path"].startswith(f"{KUBERNETES_PATH}/")
        answer = proxy.status if is_proxied else problems.answer
        return answer(problems.conceal_bug(error))


class Guard:
    """Refuse requests of unknown callers and of unbounded size; add headers to each answer."""

    def __init__(
        self, app: ASGIApp, config: Config, identities: Identities, admission: Admission
    ) -> None:
        self._app = app
        self._config = config
        self._identities = identities
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._config)
        try:
            self._check(scope)
            await self._authenticate(scope)
            await self._app(scope, exchange.receive, exchange.send)
            await exchange.finish()
        except (ConnectionError, ClientDisconnect):  # end the answer without its last chunk
            return
        except Exception as error:  # noqa: BLE001 -- the door that reports all errors
            await exchange.finish(error)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        checked = self._config.hosts and scope["path"] not in _ANY_HOST
        if checked and (len(hosts) != 1 or not self._accepts(hosts[0])):
            raise Rejected(421, "the Host header is not a name of this server", "see --allow-host")
        if "transfer-encoding" in headers and "content-length" in headers:
            what = "Content-Length and Transfer-Encoding exclude each other"
            raise Rejected(400, what)  # a proxy may take the rest for another request
        limit = self._config.limits.body_bytes_of(scope["path"])
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

    async def _authenticate(self, scope: Scope) -> None:
        """Find the caller before the body is read. Raises SkyError."""
        path = scope["path"]
        if path in _PUBLIC or path.startswith(_PUBLIC_FOLDERS):
            if _is_chunked(scope):  # each chunk costs time, and nobody is known to pay
                raise Rejected(411, f"{path} takes no body in chunks", "send a Content-Length")
            return
        connection = HTTPConnection(scope)
        is_proxied = path.startswith(f"{KUBERNETES_PATH}/")
        credential = self._identities.find(connection, sessions=not is_proxied)
        connection.state.caller = await self._admission.admit(connection, credential)
