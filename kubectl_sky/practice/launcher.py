"""The server's side of the spawner: processes to start, to signal and to wait for."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from kubectl_sky.practice.problems import Json

_CHUNK = 1 << 16
# Alone, without site-packages: the smaller it is, the faster it forks.
_ALONE = "import sys; sys.path.insert(0, sys.argv[2]); from kubectl_sky.practice import spawner; "
_ALONE += "spawner.main(int(sys.argv[1]))"


class StartError(Exception):
    """A program could not be started."""


class Process:
    """One program that was started: when it runs, and what it ended with."""

    def __init__(self, number: int) -> None:
        self.number = number
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()


class Launcher:
    """Talks with the spawner, and starts another where it is gone."""

    def __init__(self) -> None:
        self._last = 0
        self._processes: dict[int, Process] = {}
        self._socket: socket.socket | None = None
        self._spawner: subprocess.Popen[bytes] | None = None
        self._input = b""

    async def start(self, request: Json, wires: "Wires") -> Process:
        """Start a program at the far ends of these. Raises StartError."""
        process = self._process()
        try:
            connection = self._socket or self._open()
            line = json.dumps({**request, "id": process.number}).encode() + b"\n"
            sent = socket.send_fds(connection, [line], wires.far)
            connection.sendall(line[sent:])
        except OSError:
            self._lost()
        finally:
            for descriptor in wires.far:
                os.close(descriptor)
        try:
            await process.started
        except StartError:
            wires.abandon()
            raise
        wires.complete()
        return process

    def kill(self, process: Process, number: int) -> None:
        """Send a signal; SIGKILL ends all that the program has started, too."""
        if self._socket and not process.ended.done():
            line = json.dumps({"id": process.number, "signal": int(number)}).encode() + b"\n"
            self._socket.sendall(line)

    def close(self) -> None:
        """End the spawner and with it all that it has started."""
        spawner, self._spawner = self._spawner, None
        self._lost()
        if spawner:
            spawner.wait()

    def _process(self) -> Process:
        self._last += 1
        self._processes[self._last] = Process(self._last)
        return self._processes[self._last]

    def _open(self) -> socket.socket:
        mine, other = socket.socketpair()
        with other:
            number = str(other.fileno())
            command = [sys.executable, "-I", "-S", "-c", _ALONE, number]
            command.append(str(Path(__file__).parents[2]))
            if getattr(sys, "frozen", False):
                command = [sys.executable, "-m", "kubectl_sky.practice.spawner", number]
            self._spawner = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                start_new_session=True,
            )
        self._socket, self._input = mine, b""
        asyncio.get_running_loop().add_reader(mine.fileno(), self._receive)
        return mine

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_CHUNK, socket.MSG_DONTWAIT) if self._socket else b""
        except OSError:
            data = b""
        if not data:
            self._lost()
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._report(json.loads(line))

    def _report(self, report: Json) -> None:
        process = self._processes.get(report["id"])
        if process and "error" in report and not process.started.done():
            if report["error"]:
                process.started.set_exception(StartError(report["error"]))
            else:
                process.started.set_result(None)
        if process and "code" in report:
            del self._processes[report["id"]]
            if not process.ended.done():  # nobody may be waiting any more
                process.ended.set_result(report["code"])

    def _lost(self) -> None:
        """All programs end with the spawner."""
        if self._socket:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for number in list(self._processes):
            self._report(
                {"id": number, "error": "the spawner has ended", "code": 128 + signal.SIGKILL}
            )


class Wires:
    """What a program reads and writes: a pipe for each stream, or a terminal of the container."""

    def __init__(self, *, terminal: bool, fed: bool) -> None:
        self.input = -1  # where to write what it reads
        self.outputs: list[tuple[int, int]] = []  # numbers of streams, and where to read them
        self._near: socket.socket | None = None
        if terminal:
            self._near, far = socket.socketpair()
            self.far = [far.detach()]
            return
        (first, output), (second, errors) = os.pipe(), os.pipe()
        self.outputs = [(1, first), (2, second)]
        if fed:
            given, self.input = os.pipe()
        else:
            given = os.open(os.devnull, os.O_RDONLY)
        self.far = [given, output, errors]

    def complete(self) -> None:
        """Get the near end of the terminal, which is there once the program runs."""
        if self._near:
            with self._near as near:
                _, (own,), *_ = socket.recv_fds(near, 1, 1)
            self.outputs = [(1, own)]
            self.input = os.dup(own)

    def abandon(self) -> None:
        """Close all of it: nothing was started."""
        self.close_input()
        for _, descriptor in self.outputs:
            os.close(descriptor)
        if self._near:
            self._near.close()

    def close_input(self) -> None:
        """Let the program see the end of what it reads."""
        if self.input >= 0:
            os.close(self.input)
            self.input = -1


async def chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Read what a descriptor has, as it comes, until its end; then close it."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    try:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                await _until(descriptor, loop.add_reader, loop.remove_reader)
                continue
            except OSError:  # a terminal whose programs have ended
                return
            if not data:
                return
            yield data
            await asyncio.sleep(0)  # others want to be served too
    finally:
        os.close(descriptor)


async def write(descriptor: int, data: bytes) -> None:
    """Write all of it, as fast as it is read; nothing where nobody reads any more."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _until(descriptor, loop.add_writer, loop.remove_writer)
        except OSError:
            return


async def _until(descriptor: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    """Wait until a descriptor can be read or written."""
    future = asyncio.get_running_loop().create_future()

    def able() -> None:
        if not future.done():
            future.set_result(None)

    add(descriptor, able)
    try:
        await future
    finally:
        remove(descriptor)
