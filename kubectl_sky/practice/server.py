"""The API over HTTP: paths to verbs, and answers in the forms that clients ask for."""

import asyncio
import contextlib
import json
import traceback
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from kubectl_sky.practice import discovery, options, problems, requests, streaming, tables
from kubectl_sky.practice.access import Access, Attempt
from kubectl_sky.practice.node import Node
from kubectl_sky.practice.requests import Place, Request
from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.verbs import Answer, Verbs, too_new
from kubectl_sky.practice.watching import Watch, usual_time

_LARGEST = 3 * 1024 * 1024
_OPENAPI_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_HEALTH = ("/healthz", "/livez", "/readyz")
_STREAMING = ("exec", "portforward")  # over a websocket
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Server:
    """The application that uvicorn runs."""

    def __init__(self, verbs: Verbs, access: Access, node: Node) -> None:
        self._verbs = verbs
        self._api = verbs.api
        self._access = access
        self._node = node
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End the answers that would go on."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what goes wrong is answered too."""
        if scope["type"] == "websocket":
            await self._connect(WebSocket(scope, receive, send))
            return
        try:
            response = await self._respond(HttpRequest(scope, receive))
        except problems.Problem as problem:
            below = self._api.resources.serves(scope["path"])
            nothing = below and problem == problems.no_path()
            response = _refusal(problems.no_resource() if nothing else problem)
        except Exception as error:  # noqa: BLE001 -- a door: the client is told, the log too
            traceback.print_exc()
            told = problems.Problem(500, "InternalError", f"Internal error occurred: {error}")
            response = _json(told.status(), 500)
        with contextlib.suppress(OSError):
            await response(scope, receive, send)

    async def _respond(self, http: HttpRequest) -> Response:
        path = http.url.path
        if path in _HEALTH:
            return PlainTextResponse("ok")
        user = self._access.user(http.headers)
        if path == "/openapi/v2":  # an empty document: clients that know v3 ask only in vain
            return Response(b"", media_type=_OPENAPI_2)
        told = discovery.answer(path, self._api.resources) if http.method == "GET" else None
        if told:
            return _json(told)
        request = Request(
            user,
            http.method,
            requests.query(http.scope["query_string"]),
            dict(http.headers),
            await _body(http),
            [],
        )
        parts = path.strip("/").split("/")
        kind = discovery.REVIEWS.get("/".join(parts[1:]))
        if kind and http.method == "POST":
            return self._answer(self._verbs.review(kind, parts[1], request), request)
        place = requests.place(path, self._api.resources)
        self._check(place, request)
        options.check(http.method, request.query)
        if place.subresource not in ("", "status"):
            return await self._subresource(place, request)
        if place.name == "" and http.method == "GET" and request.flag("watch"):
            return self._watch(place, request)
        return self._answer(self._verb(place, request)(place, request), request)

    def _check(self, place: Place, request: Request) -> None:
        one, watched = bool(place.name), request.flag("watch")
        verb = _VERBS.get(request.method, "get" if one else "watch" if watched else "list")
        if request.method == "DELETE":
            verb = "delete" if one else "deletecollection"
        if request.method == "POST" and place.subresource in _STREAMING:
            verb = "create"
        resource, sub = place.resource, place.subresource
        name = f"{resource.plural}/{sub}" if sub else resource.plural
        attempt = Attempt(verb, resource.group, name, place.namespace, place.name)
        self._access.check(request.user, attempt)

    def _verb(self, place: Place, request: Request) -> Callable[[Place, Request], Answer]:
        verbs = self._verbs
        if place.subresource == "status" and not place.resource.status:
            raise problems.no_path()
        if place.name:
            found = {"GET": verbs.get, "PUT": verbs.update, "PATCH": verbs.patch}
            if not place.subresource:
                found["DELETE"] = verbs.delete
        else:
            found = {"GET": verbs.list, "POST": verbs.create, "DELETE": verbs.delete_all}
        if request.method not in found:
            raise problems.not_allowed()
        return found[request.method]

    async def _subresource(self, place: Place, request: Request) -> Response:
        name = f"{place.resource.storage}/{place.subresource}"
        if (name, request.method) == ("pods/log", "GET"):
            options.check_log(place.name, request.query)
            pod = self._verbs.get(place, _plain(request)).body
            lines = self._node.log(pod, request.query)
            return _Lasting(lines, self._closing, "text/plain")
        if (name, request.method) == ("serviceaccounts/token", "POST"):
            return self._answer(self._verbs.token(place, request), request)
        if place.resource.storage == "pods" and place.subresource in _STREAMING:
            pod = self._verbs.get(place, _plain(request)).body
            if place.subresource == "exec":
                self._node.running_container(pod, request.query.get("container", ""))
            raise problems.bad_request("Upgrade request required")
        raise problems.no_path()

    async def _connect(self, socket: WebSocket) -> None:
        """Run a program in a pod, or forward ports, over a WebSocket."""
        try:
            user = self._access.user(socket.headers)
            place = requests.place(socket.url.path, self._api.resources)
            query = requests.query(socket.scope["query_string"])
            request = Request(user, "GET", query, dict(socket.headers), b"", [])
            self._check(place, request)
            pod = self._verbs.get(place, _plain(request)).body
            if place.resource.storage != "pods" or place.subresource not in _STREAMING:
                raise problems.no_path()
            stream = self._node.execute if place.subresource == "exec" else streaming.forward
            await stream(pod, socket)
        except problems.Problem as problem:
            await socket.send_denial_response(_refusal(problem))

    def _watch(self, place: Place, request: Request) -> Response:
        version = request.query.get("resourceVersion", "")
        begin = request.number("resourceVersion") or 0
        state = self._api.state
        if begin > state.version:
            raise too_new(begin, state.version)
        watch = Watch(state, place.resource, self._verbs.wanted(place, request))
        initial = version in ("", "0") or request.flag("sendInitialEvents")
        try:
            changes = [] if initial else state.since(place.resource.storage, begin)
        except problems.Problem as problem:
            watch.close()
            event = {"type": "ERROR", "object": problem.status()}
            return Response(json.dumps(event) + "\n", media_type="application/json")
        watch.begin(state.as_added(place.resource.storage) if initial else changes)
        seconds = request.number("timeoutSeconds") or usual_time()

        def write(obj: Json) -> Json:
            if obj["apiVersion"] != place.resource.api_version:
                obj = {**obj, "apiVersion": place.resource.api_version}
            if not request.as_table:
                return obj
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            return tables.table(place.resource, [obj], metadata, request.as_table)

        bookmarks = request.flag("allowWatchBookmarks")
        lines = watch.lines(
            seconds, write, bookmarks=bookmarks, told=request.flag("sendInitialEvents")
        )
        return _Lasting(lines, self._closing, "application/json")

    def _answer(self, answer: Answer, request: Request) -> Response:
        body = answer.body
        if request.as_metadata and body["kind"] != "Status":
            body = tables.partial(body)
        response = _json(body, answer.code)
        for text in request.warnings:
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.append("warning", f'299 - "{quoted}"')
        return response


class _Lasting(StreamingResponse):
    """A stream that ends when its reader goes or all ends, also while there is nothing to write."""

    def __init__(self, blocks: AsyncIterator[bytes], closing: asyncio.Event, kind: str) -> None:
        super().__init__(blocks, media_type=kind)
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self.stream_response(send))
        leaving = asyncio.create_task(_left(receive))
        closing = asyncio.create_task(self._closing.wait())
        tasks = (writing, leaving, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _plain(request: Request) -> Request:
    return Request(request.user, "GET", {}, {}, b"", [])


async def _body(http: HttpRequest) -> bytes:
    """Read a body that is not too large. Raises Problem."""
    found = bytearray()
    async for block in http.stream():
        found += block
        if len(found) > _LARGEST:
            text = f"Request entity too large: limit is {_LARGEST}"
            raise problems.Problem(413, "RequestEntityTooLarge", text)
    return bytes(found)


def _refusal(problem: problems.Problem) -> Response:
    if problem.code == 404 and not problem.reason:
        return PlainTextResponse(problem.message, problem.code)
    return _json(problem.status(), problem.code)


def _json(body: Json, code: int = 200) -> Response:
    text = json.dumps(body, separators=(",", ":"))
    return Response(text.encode(), code, media_type="application/json")
