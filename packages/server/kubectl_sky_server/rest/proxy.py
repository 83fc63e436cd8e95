"""`/kubernetes`: the API server behind this one, for the plugin and for kubectl.

Requests travel as they are, with the caller's credentials, so RBAC decides as it does without a
proxy. Errors of this server are Status objects, as clients of Kubernetes expect them.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http import HTTPStatus
from threading import Event
from typing import TypeVar
from urllib.parse import parse_qsl, unquote

import anyio.to_thread
from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from kubectl_sky.cluster import websocket
from kubectl_sky.cluster.errors import SERVER_PREFIX, RequestInfo
from kubectl_sky.cluster.session import Outgoing
from kubectl_sky.cluster.transport import Reply, Stream
from kubectl_sky.errors import SkyError
from kubectl_sky.words.names import KUBERNETES_PATH
from kubectl_sky_server.rest import problems
from kubectl_sky_server.rest.config import Limits
from kubectl_sky_server.rest.events import reviewed
from kubectl_sky_server.rest.identity import Caller
from kubectl_sky_server.rest.problems import Rejected

T = TypeVar("T")

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_REQUEST_HEADERS = frozenset({"accept", "accept-encoding", "content-type"})
_ODD_SEGMENT = re.compile(r"^\.\.?$|[/\\\x00-\x20\x7f-\U0010ffff]")
_JSON = re.compile(r"application/([^+;]+\+)?json([ \t]*;.*)?", re.IGNORECASE)  # as the client's
_REQUEST_PREFIX = "impersonate-"  # RBAC decides who may
_ANSWER_HEADERS = ("Content-Type", "Content-Encoding", "Retry-After", "Warning", "Audit-Id")
# A pod that is reached through the API server may answer with a page: it runs no script here.
_SECURITY_HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'"}
MAX_THREADS = 2000  # that wait for the API server, of all callers together

router = APIRouter(include_in_schema=False)


@router.api_route(KUBERNETES_PATH + "/{path:path}", methods=_METHODS)
async def forward(request: Request) -> Response:
    """Send a request to the API server, and its answer back as it arrives."""
    with contextlib.ExitStack() as resources:
        try:
            caller = _caller(request)
            resources.enter_context(request.app.state.streams.open(caller.user.name))
            body = _body(await request.body(), request.headers.get("content-type", ""))
            limits: Limits = request.app.state.config.limits
            query = _query(request)
            is_stream = any(name in ("watch", "follow") for name, _ in query)
            # Long only for a watch or a log.
            silence = limits.stream_seconds if is_stream else limits.request_seconds
            outgoing = Outgoing(
                RequestInfo(request.method, _path(request), caller.session.server),
                query,
                _headers(request),
                body,
                streamed=True,
                repeatable=False,
                silence=silence,
            )
            reply = await _in_thread(request, partial(caller.session.exchange, outgoing))
        except SkyError as error:
            return status(error)
        if reply.stream is None:
            headers = _answer_headers(reply, encoded=False)
            return Response(reply.data, reply.status, headers)
        stream = resources.enter_context(Stream(reply.stream, outgoing.info, decode=False))
        chunks = _chunks(request, caller, stream, resources.pop_all())
        return StreamingResponse(chunks, reply.status, _answer_headers(reply, encoded=True))


@router.websocket(KUBERNETES_PATH + "/{path:path}")
async def tunnel(client: WebSocket) -> None:
    """Connect a client with a WebSocket of the API server: exec and port-forward."""
    with contextlib.ExitStack() as resources:
        try:
            caller = _caller(client)
            resources.enter_context(client.app.state.streams.open(caller.user.name))
            info = RequestInfo("GET", _path(client), caller.session.server)
            outgoing = Outgoing(
                info, _query(client), _headers(client), streamed=True, repeatable=False
            )
            handshake = websocket.handshake(info, client.scope["subprotocols"])
            exchange = partial(caller.session.exchange, outgoing, handshake)
            reply = await _in_thread(client, exchange)
        except SkyError as error:
            await client.send_denial_response(status(error))
            return

        if reply.stream is None:
            headers = _answer_headers(reply, encoded=False)
            await client.send_denial_response(Response(reply.data, reply.status, headers))
            return

        server = resources.enter_context(websocket.WebSocket(reply.stream, info))
        await client.accept(server.protocol)
        seconds = client.app.state.config.limits.stream_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _connect(client, server)


async def _connect(client: WebSocket, server: websocket.WebSocket) -> None:
    """Send messages in both directions until one side closes."""
    stop = Event()
    pumps = [
        asyncio.create_task(_to_client(client, server, stop)),
        asyncio.create_task(_to_server(client, server)),
    ]

    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        server.hang_up()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        with contextlib.suppress(RuntimeError):  # the client has closed it
            await client.close()


async def _to_client(client: WebSocket, server: websocket.WebSocket, stop: Event) -> None:
    with contextlib.suppress(SkyError, TimeoutError, WebSocketDisconnect, RuntimeError):
        while True:
            data = await _in_thread(client, partial(server.receive, stop))
            if data is None:
                return
            await client.send_bytes(data)


async def _to_server(client: WebSocket, server: websocket.WebSocket) -> None:
    with contextlib.suppress(SkyError, WebSocketDisconnect, KeyError):  # KeyError: a text message
        while True:
            data = await client.receive_bytes()
            await _in_thread(client, partial(server.send, data))


async def _chunks(
    request: Request, caller: Caller, stream: Stream, resources: contextlib.ExitStack
) -> AsyncIterator[bytes]:
    """Yield the parts of an answer; the time of a stream is limited."""
    parts: Iterator[bytes] = iter(stream)
    seconds = request.app.state.config.limits.stream_seconds
    confirm = partial(request.app.state.identities.confirm, caller)
    try:
        async with asyncio.timeout(seconds), reviewed(request, confirm, stream.close):
            while chunk := await _in_thread(request, partial(next, parts, b"")):
                yield chunk
    except (SkyError, TimeoutError):
        raise ConnectionAbortedError from None
    finally:
        stream.close()  # ends a thread that waits for the API server
        resources.close()


async def _in_thread(connection: HTTPConnection, work: Callable[[], T]) -> T:
    """Run something that waits; the threads of streams are not those of other requests."""
    limiter = connection.app.state.proxy_threads
    return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)


def _caller(connection: HTTPConnection) -> Caller:
    """Return the caller that Guard has authenticated. Raises Rejected."""
    caller: Caller = connection.state.caller
    connection.app.state.rates.take(caller.user.name)
    return caller


def _path(connection: HTTPConnection) -> str:
    """Return the path at the API server, as it was sent. Raises Rejected.

    It begins with a slash and has no segment that leads out of it: the server's address is put
    in front of it.
    """
    raw = connection.scope.get("raw_path") or connection.scope["path"].encode()
    path = str(raw.decode("ascii", "replace"))
    segments = map(unquote, path.split("/"))
    if not path.startswith(f"{KUBERNETES_PATH}/") or any(map(_ODD_SEGMENT.search, segments)):
        raise Rejected(404, "no such path")
    return path.removeprefix(KUBERNETES_PATH)


def _body(data: bytes, media_type: str) -> object:
    """Return the value of a JSON body, which the Kubernetes client encodes. Raises Rejected."""
    if not data or (media_type and not _JSON.fullmatch(media_type)):
        return data or None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Rejected(400, "the body is not JSON") from None


def _query(connection: HTTPConnection) -> list[tuple[str, str]]:
    return parse_qsl(connection.scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _headers(connection: HTTPConnection) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in connection.headers.items()
        if name in _REQUEST_HEADERS or name.startswith(_REQUEST_PREFIX)
    ]


def _answer_headers(reply: Reply, *, encoded: bool) -> dict[str, str]:
    headers = {name: reply.headers.get(name) for name in _ANSWER_HEADERS}
    if not encoded:
        del headers["Content-Encoding"]
    return {name: value for name, value in headers.items() if value} | _SECURITY_HEADERS


def status(error: SkyError) -> JSONResponse:
    """Return an error of this server as an object of Kubernetes."""
    answer = problems.answer(error)
    message = f"{error.what}; {error.hint}" if error.hint else error.what
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{SERVER_PREFIX}{message}",
        "reason": HTTPStatus(answer.status_code).phrase.replace(" ", ""),
        "code": answer.status_code,
    }
    names = ("WWW-Authenticate", "Retry-After")
    kept = {name: answer.headers[name] for name in names if name in answer.headers}
    return JSONResponse(body, answer.status_code, kept)
