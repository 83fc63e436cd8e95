"""The API over HTTP: routes requests to verbs, and encodes their results."""

import asyncio
import contextlib
import json
import traceback
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from kubectl_sky_practice import discovery, problems, requests, streaming, tables
from kubectl_sky_practice.access import Access, Attempt
from kubectl_sky_practice.node import Node
from kubectl_sky_practice.requests import Request, RequestInfo
from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.verbs import Result, Verbs
from kubectl_sky_practice.watching import Watch

_MAX_BODY = 3 * 1024 * 1024
_OPENAPI_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_HEALTH = ("/healthz", "/livez", "/readyz")
_WATCH_SECONDS = 1800  # without timeoutSeconds
_STREAMING = ("exec", "portforward")  # over a websocket
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Server:
    def __init__(self, verbs: Verbs, access: Access, node: Node) -> None:
        self._verbs = verbs
        self._api = verbs.api
        self._access = access
        self._node = node
        self._closing = asyncio.Event()

    def close(self) -> None:
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._connect(WebSocket(scope, receive, send))
            return
        try:
            response = await self._respond(HttpRequest(scope, receive))
        except problems.Problem as problem:
            not_served = problem == problems.no_path() and self._api.resources.serves(scope["path"])
            response = _refusal(problems.no_resource() if not_served else problem)
        except Exception as error:  # noqa: BLE001 -- the client and the log get it
            traceback.print_exc()
            text = f"Internal error occurred: {error}"
            response = _refusal(problems.Problem(500, "InternalError", text))
        with contextlib.suppress(OSError):
            await response(scope, receive, send)

    async def _respond(self, http: HttpRequest) -> Response:
        path = http.url.path
        method = http.method
        if path in _HEALTH:
            return PlainTextResponse("ok")

        user = self._access.user(http.headers)
        if path == "/openapi/v2":  # an empty document: kubectl asks for v3 first
            return Response(b"", media_type=_OPENAPI_2)
        document = discovery.get(path, self._api.resources) if method == "GET" else None
        if document:
            return _json(document)

        query = requests.parse_query(http.scope["query_string"])
        request = Request(user, method, query, dict(http.headers), await _body(http))
        parts = path.strip("/").split("/")
        review = discovery.REVIEWS.get("/".join(parts[1:]))
        if review and method == "POST":
            return _encode(self._verbs.review(review, parts[1], request), request)

        info = requests.parse_path(path, self._api.resources)
        self._authorize(info, request)
        requests.check_options(request.query)
        if info.subresource not in ("", "status"):
            return self._subresource(info, request)
        if info.name == "" and method == "GET" and request.flag("watch"):
            return self._watch(info, request)
        return _encode(self._verb(info, method)(info, request), request)

    def _authorize(self, info: RequestInfo, request: Request) -> None:
        read_many = "watch" if request.flag("watch") else "list"
        read = "get" if info.name else read_many
        verb = _VERBS.get(request.method, read)
        plural = info.resource.plural
        subresource = info.subresource
        name = f"{plural}/{subresource}" if subresource else plural
        attempt = Attempt(verb, info.resource.group, name, info.namespace, info.name)
        self._access.check(request.user, attempt)

    def _verb(self, info: RequestInfo, method: str) -> Callable[[RequestInfo, Request], Result]:
        verbs = self._verbs
        if info.subresource == "status" and not info.resource.status:
            raise problems.no_path()
        if info.name:
            allowed = {"GET": verbs.get, "PUT": verbs.update, "PATCH": verbs.patch}
            if not info.subresource:
                allowed["DELETE"] = verbs.delete
        else:
            allowed = {"GET": verbs.list, "POST": verbs.create}
        if method not in allowed:
            raise problems.not_allowed()
        return allowed[method]

    def _subresource(self, info: RequestInfo, request: Request) -> Response:
        name = f"{info.resource.storage}/{info.subresource}"
        if (name, request.method) == ("pods/log", "GET"):
            pod = self._verbs.get(info, Request(request.user, "GET")).body
            return _Stream(self._node.log(pod, request.query), self._closing, "text/plain")
        if (name, request.method) == ("serviceaccounts/token", "POST"):
            return _encode(self._verbs.token(info, request), request)
        if info.resource.storage == "pods" and info.subresource in _STREAMING:
            pod = self._verbs.get(info, Request(request.user, "GET")).body
            if info.subresource == "exec":
                self._node.running_container(pod, request.query.get("container", ""))
            raise problems.bad_request("Upgrade request required")
        raise problems.no_path()

    async def _connect(self, socket: WebSocket) -> None:
        try:
            user = self._access.user(socket.headers)
            info = requests.parse_path(socket.url.path, self._api.resources)
            request = Request(user, "GET", requests.parse_query(socket.scope["query_string"]))
            self._authorize(info, request)
            pod = self._verbs.get(info, Request(user, "GET")).body
            if info.resource.storage != "pods" or info.subresource not in _STREAMING:
                raise problems.no_path()
            stream = self._node.execute if info.subresource == "exec" else streaming.forward
            await stream(pod, socket)
        except problems.Problem as problem:
            await socket.send_denial_response(_refusal(problem))

    def _watch(self, info: RequestInfo, request: Request) -> Response:
        version = request.number("resourceVersion") or 0
        state = self._api.state
        resource = info.resource
        if version > state.version:
            raise problems.too_new(version, state.version)
        selects = self._verbs.predicate(info, request)
        try:
            if not version or request.flag("sendInitialEvents"):
                earlier = state.as_added(resource.storage)
            else:
                earlier = state.since(resource.storage, version)
        except problems.Problem as problem:
            event = {"type": "ERROR", "object": problem.status()}
            return Response(json.dumps(event) + "\n", media_type="application/json")
        watch = Watch(state, resource, selects, earlier)

        def convert(obj: Json) -> Json:
            if obj["apiVersion"] != resource.api_version:
                obj = {**obj, "apiVersion": resource.api_version}
            if not request.as_table:
                return obj
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            return tables.table(resource, [obj], metadata, request.as_table)

        lines = watch.lines(
            request.number("timeoutSeconds") or _WATCH_SECONDS,
            convert,
            bookmarks=request.flag("allowWatchBookmarks"),
            initial_bookmark=request.flag("sendInitialEvents"),
        )
        return _Stream(lines, self._closing, "application/json")


class _Stream(StreamingResponse):
    """A stream that ends when its reader leaves or the server closes, also while it is idle."""

    def __init__(self, blocks: AsyncIterator[bytes], closing: asyncio.Event, kind: str) -> None:
        super().__init__(blocks, media_type=kind)
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self.stream_response(send))
        leaving = asyncio.create_task(_disconnected(receive))
        closing = asyncio.create_task(self._closing.wait())
        tasks = (writing, leaving, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(http: HttpRequest) -> bytes:
    """Read a body of limited size. Raises Problem."""
    body = bytearray()
    async for block in http.stream():
        body += block
        if len(body) > _MAX_BODY:
            text = f"Request entity too large: limit is {_MAX_BODY}"
            raise problems.Problem(413, "RequestEntityTooLarge", text)
    return bytes(body)


def _encode(result: Result, request: Request) -> Response:
    body = result.body
    if request.as_metadata and body["kind"] != "Status":
        body = tables.partial(body)
    response = _json(body, result.code)
    for text in request.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.append("warning", f'299 practice-cluster "{quoted}"')
    return response


def _refusal(problem: problems.Problem) -> Response:
    if problem.code == 404 and not problem.reason:
        return PlainTextResponse(problem.message, problem.code)
    return _json(problem.status(), problem.code)


def _json(body: Json, code: int = 200) -> Response:
    text = json.dumps(body, separators=(",", ":"))
    return Response(text.encode(), code, media_type="application/json")
