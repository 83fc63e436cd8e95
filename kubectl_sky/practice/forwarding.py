"""Ports of pods, reached from outside over a websocket."""

import asyncio
import struct

from starlette.websockets import WebSocket, WebSocketDisconnect

from kubectl_sky.practice import problems
from kubectl_sky.practice.remote import Channels
from kubectl_sky.practice.resources import Json

_PROTOCOLS = ("v4.channel.k8s.io",)
_CHUNK = 1 << 15


async def forward(pod: Json, socket: WebSocket) -> None:
    """Join each port that is asked for to two channels: its bytes, and what went wrong.

    Raises Problem before the socket is accepted.
    """
    asked = socket.query_params.getlist("ports")
    ports = [_port(text) for value in asked for text in value.split(",")]
    if not ports:
        raise problems.bad_request('query parameter "port" is required')
    address = pod.get("status", {}).get("podIP")
    if pod.get("status", {}).get("phase") != "Running" or not address:
        name = pod["metadata"]["name"]
        raise problems.bad_request(f"pod {name} does not have a host assigned")
    channels = Channels(socket)
    await channels.accept(_PROTOCOLS)
    lines = [_Line(channels, 2 * index, address, port) for index, port in enumerate(ports)]
    for line in lines:
        await line.begin()
    serving = [asyncio.create_task(line.serve()) for line in lines]
    receiving = asyncio.create_task(_receive(socket, lines))
    ended = asyncio.ensure_future(asyncio.wait(serving))
    await asyncio.wait((receiving, ended), return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        await channels.hang_up()
    for task in (receiving, ended, *serving):
        task.cancel()
    await asyncio.gather(receiving, ended, *serving, return_exceptions=True)


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        raise problems.bad_request(f'unable to parse "{text}" as a port') from None
    if not 0 < port < 65536:
        raise problems.bad_request(f'port "{text}" must be > 0')
    return port


class _Line:
    """One port's connection, on two channels."""

    def __init__(self, channels: Channels, number: int, address: str, port: int) -> None:
        self._channels, self._number = channels, number
        self._address, self._port = address, port
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()

    async def begin(self) -> None:
        """Say which port the channels belong to."""
        for channel in (self._number, self._number + 1):
            await self._channels.send(channel, struct.pack("<H", self._port))

    async def serve(self) -> None:
        """Pass on what the program sends, until it ends the connection."""
        try:
            reader, self._writer = await asyncio.open_connection(self._address, self._port)
        except OSError as error:
            why = "connection refused" if isinstance(error, ConnectionRefusedError) else str(error)
            text = f"failed to connect to localhost:{self._port} inside namespace, IPv4: {why}"
            await self._channels.send(self._number + 1, text.encode())
            return
        finally:
            self._connected.set()
        try:
            while data := await reader.read(_CHUNK):
                await self._channels.send(self._number, data)
        except OSError:
            return  # the program has cut it
        finally:
            self._writer.close()

    async def take(self, data: bytes) -> None:
        """Write to the program, as fast as it reads."""
        await self._connected.wait()
        if self._writer and not self._writer.is_closing():
            self._writer.write(data)
            await self._writer.drain()


async def _receive(socket: WebSocket, lines: list[_Line]) -> None:
    try:
        while True:
            message = await socket.receive_bytes()
            channel = message[0] if message else -1
            if channel >= 0 and channel % 2 == 0 and channel // 2 < len(lines):
                await lines[channel // 2].take(message[1:])
    except (WebSocketDisconnect, KeyError, OSError):
        return
