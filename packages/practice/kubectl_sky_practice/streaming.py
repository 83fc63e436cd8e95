"""`kubectl exec` and port forwarding: streams of pods over a WebSocket."""

import asyncio
import contextlib
import json
import struct
from collections.abc import Awaitable, Callable, Sequence

from starlette.websockets import WebSocket, WebSocketDisconnect

from kubectl_sky_practice import problems
from kubectl_sky_practice.containers import Container
from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.runtime import Process, Runtime, StartError

_EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)
_STDIN = 0
_ERROR = 3
_RESIZE = 4
_CLOSE = 255  # channels
_TRUE = ("true", "1", "True")
_CHUNK = 1 << 15
_DRAIN_SECONDS = 1.0  # for output of processes that outlive the program
_EXEC_ERROR = (
    "Internal error occurred: error executing command in container: failed to exec in container: "
    'failed to start exec "": OCI runtime exec failed: exec failed: unable to start container '
    "process: "
)


class Channels:
    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._lock = asyncio.Lock()

    async def accept(self, protocols: Sequence[str]) -> None:
        """Agree on a protocol. Raises Problem."""
        offered = self._socket.scope["subprotocols"]
        chosen = next((protocol for protocol in protocols if protocol in offered), None)
        if chosen is None and offered:
            raise problems.bad_request(f"unable to negotiate protocol: client supports {offered}")
        await self._socket.accept(chosen)

    async def send(self, channel: int, data: bytes) -> None:
        async with self._lock:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def send_all(self, channel: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):  # the terminal or connection has closed
            while data := await reader.read(_CHUNK):
                await self.send(channel, data)

    async def receive(self, handle: Callable[[int, bytes], Awaitable[None]]) -> None:
        with contextlib.suppress(WebSocketDisconnect, KeyError):
            while True:
                if message := await self._socket.receive_bytes():
                    await handle(message[0], message[1:])

    async def close(self) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close()


async def execute(runtime: Runtime, container: Container, socket: WebSocket) -> None:
    """Run a program in a container. Raises Problem before the socket is accepted."""
    query = socket.query_params
    running = container.process
    command = query.getlist("command")
    tty = query.get("tty") in _TRUE
    if not command:
        raise problems.bad_request("you must specify at least 1 command for the container")

    assert running
    channels = Channels(socket)
    await channels.accept(_EXEC_PROTOCOLS)

    env = ({"TERM": "xterm"} if tty else {}) | container.request["env"]
    request = {"command": command, "tty": tty, "env": env, "cwd": container.request["cwd"]}
    try:
        process = await runtime.exec(running, request, stdin=query.get("stdin") in _TRUE)
    except StartError as error:
        status = _internal_error(f"{_EXEC_ERROR}{error}: unknown")
    else:
        status = await _attend(channels, process, tty=tty)

    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await channels.send(_ERROR, json.dumps({"metadata": {}, **status}).encode())
    await channels.close()


async def _attend(channels: Channels, process: Process, *, tty: bool) -> Json:
    async def handle(channel: int, data: bytes) -> None:
        stdin = process.stdin
        if channel == _RESIZE and tty:
            size = json.loads(data)
            process.resize(size["Height"], size["Width"])
        elif channel == _STDIN and stdin and not stdin.is_closing():
            stdin.write(data)
            with contextlib.suppress(OSError):  # the program does not read any more
                await stdin.drain()
        elif channel == _CLOSE and data[:1] == bytes([_STDIN]) and stdin and not tty:
            stdin.close()

    exiting = asyncio.create_task(process.wait())
    receiving = asyncio.create_task(channels.receive(handle))
    sending = [asyncio.create_task(channels.send_all(*output)) for output in process.outputs]
    try:
        await asyncio.wait((receiving, exiting), return_when=asyncio.FIRST_COMPLETED)
        if exiting.done():
            await asyncio.wait(sending, timeout=_DRAIN_SECONDS)
            return _exit_status(exiting.result())
        return {"status": "Failure"}
    finally:
        await _cancel(exiting, receiving, *sending)
        process.close()


async def _cancel(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _exit_status(code: int) -> Json:
    if code == 0:
        return {"status": "Success"}
    message = f"command terminated with non-zero exit code: exit status {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return _failure(message, "NonZeroExitCode", causes)


def _internal_error(text: str) -> Json:
    message = f"Internal error occurred: {text}"
    return {**_failure(message, "InternalError", [{"message": text}]), "code": 500}


def _failure(message: str, reason: str, causes: list[Json]) -> Json:
    status = {"status": "Failure", "message": message, "reason": reason}
    return {**status, "details": {"causes": causes}}


async def forward(pod: Json, socket: WebSocket) -> None:
    """Connect two channels, for data and errors, to each port. Raises Problem before accepting."""
    values = socket.query_params.getlist("ports")
    ports = [_port(text) for value in values for text in value.split(",")]
    if not ports:
        raise problems.bad_request('query parameter "port" is required')
    address = pod.get("status", {}).get("podIP")
    if pod.get("status", {}).get("phase") != "Running" or not address:
        name = pod["metadata"]["name"]
        raise problems.bad_request(f"pod {name} does not have a host assigned")
    channels = Channels(socket)
    await channels.accept(_FORWARD_PROTOCOLS)
    connections = [_Connection(channels, 2 * index, port) for index, port in enumerate(ports)]
    for connection in connections:
        await connection.announce()

    async def handle(channel: int, data: bytes) -> None:
        if channel % 2 == 0 and channel // 2 < len(connections):
            await connections[channel // 2].write(data)

    serving = [asyncio.create_task(connection.serve(address)) for connection in connections]
    receiving = asyncio.create_task(channels.receive(handle))
    all_ended = asyncio.gather(*serving)
    await asyncio.wait((receiving, all_ended), return_when=asyncio.FIRST_COMPLETED)
    if all_ended.done():
        await channels.close()
    await _cancel(receiving, *serving)
    await asyncio.gather(all_ended, return_exceptions=True)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise problems.bad_request(f'"{text}" is not a port')
    return int(text)


class _Connection:
    def __init__(self, channels: Channels, channel: int, port: int) -> None:
        self._channels = channels
        self._channel = channel
        self._port = port
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()

    async def announce(self) -> None:
        for channel in (self._channel, self._channel + 1):
            await self._channels.send(channel, struct.pack("<H", self._port))

    async def serve(self, address: str) -> None:
        try:
            reader, self._writer = await asyncio.open_connection(address, self._port)
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            reason = "connection refused" if refused else str(error)
            text = f"failed to connect to localhost:{self._port} inside namespace, IPv4: {reason}"
            await self._channels.send(self._channel + 1, text.encode())
            return
        finally:
            self._connected.set()
        try:
            await self._channels.send_all(self._channel, reader)
        finally:
            self._writer.close()

    async def write(self, data: bytes) -> None:
        await self._connected.wait()
        if self._writer and not self._writer.is_closing():
            self._writer.write(data)
            with contextlib.suppress(OSError):  # the program has closed the connection
                await self._writer.drain()
