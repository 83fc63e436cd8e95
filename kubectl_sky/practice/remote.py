"""Programs that are run in containers or joined from outside, over a websocket."""

import asyncio
import contextlib
import fcntl
import json
import os
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from kubectl_sky.practice import podlogs, problems
from kubectl_sky.practice.containers import Container, Output
from kubectl_sky.practice.launcher import Launcher, Process, StartError, Wires, chunks, write
from kubectl_sky.practice.pods import PodLife
from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.state import Key, key

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_MISSING = {
    "exec": 'container not found ("{container}")',
    "attach": "container {container} not found in pod {pod}",
}
_TRUE = ("true", "1", "True")
_WAITING = 64  # chunks that a slow client may be behind
_LEFT_OPEN = 1.0  # seconds for what others still hold open after the end
_INPUT, _STATUS, _SIZE, _CLOSE = 0, 3, 4, 255
_EXEC = (
    "Internal error occurred: error executing command in container: failed to exec in container: "
)
_EXEC += 'failed to start exec "": OCI runtime exec failed: exec failed: unable to start container '
_EXEC += "process: "


class Channels:
    """The numbered streams of one websocket."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._write = -1
        self._terminal = -1
        self._lock = asyncio.Lock()
        self.closed: Callable[[], None] | None = None

    async def accept(self, known: Sequence[str] = _PROTOCOLS) -> None:
        """Agree on a protocol. Raises Problem."""
        offered = self._socket.scope["subprotocols"]
        chosen = next((one for one in known if one in offered), None)
        if chosen is None and offered:
            raise problems.bad_request(f"unable to negotiate protocol: client supports {offered}")
        await self._socket.accept(chosen)

    def feed(self, descriptor: int, *, terminal: bool) -> None:
        """Write to this what comes as input; it is closed when there is no more."""
        self._write = descriptor
        self._terminal = descriptor if terminal else -1

    async def send(self, channel: int, data: bytes) -> None:
        """Send to a channel."""
        async with self._lock:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def forward(self, channel: int, descriptor: int) -> None:
        """Send all that can be read."""
        async for data in chunks(descriptor):
            await self.send(channel, data)

    async def receive(self) -> None:
        """Take what comes until the other side goes."""
        try:
            while True:
                message = await self._socket.receive_bytes()
                if message:
                    await self._take(message[0], message[1:])
        except (WebSocketDisconnect, KeyError):
            return

    async def _take(self, channel: int, data: bytes) -> None:
        if channel == _SIZE and self._terminal >= 0:
            size = json.loads(data)
            rows = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, rows)
        elif channel == _INPUT and self._write >= 0:
            await write(self._write, data)
        elif channel == _CLOSE and data[:1] == bytes([_INPUT]):
            self.close()

    def close(self, *, hang_up: bool = False) -> None:
        """Let the program see the end of its input; a terminal has none until it hangs up."""
        if self._write >= 0 and (hang_up or self._terminal < 0):
            os.close(self._write)
            self._write = -1
            if self.closed and not hang_up:
                self.closed()

    async def finish(self, status: Json) -> None:
        """Say how it ended, and end."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self.send(_STATUS, json.dumps({"metadata": {}, **status}).encode())
        await self.hang_up()

    async def hang_up(self) -> None:
        """End it as one does."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close()


class Remote:
    """Serves exec and attach for the pods that run here."""

    def __init__(self, launcher: Launcher, lives: Mapping[Key, PodLife], *, isolated: bool) -> None:
        self._launcher = launcher
        self._lives = lives
        self._isolated = isolated

    def running(self, verb: str, pod: Json, name: str) -> tuple[Container, Process]:
        """Return a container that runs. Raises Problem, in the kubelet's words for a verb."""
        name = podlogs.named(pod, name)
        life = self._lives.get(key(pod))
        found = life.container(name) if life else None
        if not found or not found.process or found.process.ended.done():
            namespace, pod_name = key(pod)
            message = _MISSING[verb].format(container=name, pod=f"{pod_name}_{namespace}")
            raise problems.Problem(404, "", message)
        return found, found.process

    async def execute(self, pod: Json, socket: WebSocket) -> None:
        """Run a program in a container. Raises Problem before the socket is accepted."""
        query = socket.query_params
        container, process = self.running("exec", pod, query.get("container", ""))
        command = query.getlist("command")
        if not command:
            raise problems.bad_request("you must specify at least 1 command for the container")
        channels = Channels(socket)
        await channels.accept()
        terminal = query.get("tty") in _TRUE
        request = {name: container.request[name] for name in ("cwd", "env")}
        request["env"] = ({"TERM": "xterm"} if terminal else {}) | request["env"]
        request |= {"command": command, "into": process.number, "tty": terminal}
        request |= {"isolated": self._isolated}
        wires = Wires(terminal=terminal, fed=query.get("stdin") in _TRUE)
        try:
            new = await self._launcher.start(request, wires)
        except StartError as error:
            await channels.finish(_internal(f"{_EXEC}{error}: unknown"))
        else:
            channels.feed(wires.input, terminal=terminal)
            sending = [asyncio.create_task(channels.forward(*one)) for one in wires.outputs]
            await _serve(channels, new.ended, sending, lambda: _exited(new.ended.result()))
        channels.close(hang_up=True)

    async def attach(self, pod: Json, socket: WebSocket) -> None:
        """Join the program of a container. Raises Problem before the socket is accepted."""
        query = socket.query_params
        container, _ = self.running("attach", pod, query.get("container", ""))
        channels = Channels(socket)
        await channels.accept()
        wires = container.wires
        if query.get("stdin") in _TRUE and wires and wires.input >= 0:
            terminal, once = bool(container.spec.get("tty")), container.spec.get("stdinOnce")
            channels.feed(os.dup(wires.input), terminal=terminal)
            channels.closed = wires.close_input if once and not terminal else None
        watcher: Output = asyncio.Queue(_WAITING)
        container.watchers.add(watcher)
        sending = [asyncio.create_task(_follow(watcher, channels))]
        await _serve(channels, sending[0], sending, lambda: {"status": "Success"})
        container.watchers.discard(watcher)
        while not watcher.empty():  # the container may wait for room
            watcher.get_nowait()
        channels.close(hang_up=True)


async def _follow(watcher: Output, channels: Channels) -> None:
    while item := await watcher.get():
        await channels.send(*item)


async def _serve(
    channels: Channels,
    ended: asyncio.Future[Any],
    sending: list[asyncio.Task[None]],
    status: Callable[[], Json],
) -> None:
    """Pass everything on until the program ends or the client goes."""
    receiving = asyncio.create_task(channels.receive())
    await asyncio.wait((receiving, ended), return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        await asyncio.wait(sending, timeout=_LEFT_OPEN)
        await channels.finish(status())
    for task in (receiving, *sending):
        task.cancel()
    await asyncio.gather(receiving, *sending, return_exceptions=True)


def _exited(code: int) -> Json:
    if code == 0:
        return {"status": "Success"}
    text = f"command terminated with non-zero exit code: exit status {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return _failed(text, "NonZeroExitCode", causes)


def _internal(text: str) -> Json:
    message = f"Internal error occurred: {text}"
    return {**_failed(message, "InternalError", [{"message": text}]), "code": 500}


def _failed(message: str, reason: str, causes: list[Json]) -> Json:
    body = {"status": "Failure", "message": message, "reason": reason}
    return {**body, "details": {"causes": causes}}
