"""The container runtime: starts programs in containers as local processes."""

import asyncio
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from kubectl_sky_practice.container_init import HOME
from kubectl_sky_practice.resources import Json

_CHUNK = 1 << 16
# Without site-packages: the smaller the process, the faster it forks.
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from kubectl_sky_practice import "
_CODE += "container_init; container_init.main(int(sys.argv[2]))"
# Without namespaces, pods have no hosts files: Python programs look up names of pods in this way.
_SITECUSTOMIZE = """
import os, socket

def find(host):
    with open(os.environ["PRACTICE_HOSTS"]) as lines:
        for address, *names in map(str.split, filter(str.strip, lines)):
            if host in names:
                return address
    return host

def wrap(resolve):
    return lambda host, *rest, **named: resolve(find(host), *rest, **named)

socket.getaddrinfo = wrap(socket.getaddrinfo)
socket.gethostbyname = wrap(socket.gethostbyname)
"""


class StartError(Exception):
    pass


class Mount(NamedTuple):
    """A file or folder of the host at a path of the container."""

    path: str
    source: str
    read_only: bool = False


class _Protocol(asyncio.StreamReaderProtocol):
    """Treats a terminal that has closed as the end of the stream; an error would discard data."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None)


class Process:
    def __init__(self, control: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.stdin: asyncio.StreamWriter | None = None
        self.outputs: list[tuple[int, asyncio.StreamReader]] = []  # 1 is stdout, 2 is stderr
        self._transports: list[asyncio.BaseTransport] = []
        self._terminal = -1
        self._control = control
        self._input = b""
        self._started: asyncio.Future[int] = loop.create_future()
        self._exit_code: asyncio.Future[int] = loop.create_future()
        control.setblocking(False)
        loop.add_reader(control, self._receive)

    @property
    def running(self) -> bool:
        return not self._exit_code.done()

    async def start(self, request: Json) -> None:
        """Send the request. Raises StartError."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.sock_sendall(self._control, json.dumps(request).encode() + b"\n")
        self.pid = await self._started
        if self._terminal >= 0:
            await self.connect(0, os.dup(self._terminal))
            await self.connect(1, self._terminal)

    async def wait(self) -> int:
        """Return the exit code; 128 + n for a signal."""
        return await asyncio.shield(self._exit_code)

    def kill(self, number: int) -> None:
        if self.running and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def resize(self, rows: int, columns: int) -> None:
        if self.stdin:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            with contextlib.suppress(OSError):  # not a terminal
                fcntl.ioctl(self.stdin.get_extra_info("pipe"), termios.TIOCSWINSZ, size)

    async def connect(self, stream: int, descriptor: int) -> None:
        """Connect our end of a stream; 0 is stdin."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        mode = "rb" if stream else "wb"
        file: IO[bytes] = os.fdopen(descriptor, mode, buffering=0)
        new_protocol = partial(_Protocol, reader)
        if stream:
            self._transports.append((await loop.connect_read_pipe(new_protocol, file))[0])
            self.outputs.append((stream, reader))
        else:
            transport, protocol = await loop.connect_write_pipe(new_protocol, file)
            self._transports.append(transport)
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()

    def abandon(self) -> None:
        """Kill it, or let its monitor end if it still waits for the request."""
        self.kill(signal.SIGKILL)
        self.close()
        self._started.cancel()
        with contextlib.suppress(OSError):  # it has ended
            self._control.shutdown(socket.SHUT_WR)

    def on_exit(self, function: Callable[["Process"], None]) -> None:
        self._exit_code.add_done_callback(lambda _: function(self))

    def _receive(self) -> None:
        try:
            data, descriptors, *_ = socket.recv_fds(self._control, _CHUNK, 1)
        except OSError:
            data = b""
            descriptors = []
        if descriptors:
            (self._terminal,) = descriptors
        *lines, self._input = (self._input + data).split(b"\n")
        for line in filter(None, lines):
            self._report(**json.loads(line))
        if not data:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._report(error="the container runtime has stopped")

    def _report(self, pid: int = 0, error: str = "", code: int = 128 + signal.SIGKILL) -> None:
        if not self._started.done():
            if error:
                self._started.set_exception(StartError(error))
            else:
                self._started.set_result(pid)
        if not pid and not self._exit_code.done():
            self._exit_code.set_result(code)


class Runtime:
    def __init__(self, root: Path) -> None:
        self.is_isolated = False
        self._root = root
        self._processes: set[Process] = set()
        self._init: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    async def try_namespaces(self) -> None:
        if sys.platform != "linux":
            return
        self.is_isolated = True
        request: Json = {"command": ["true"], "env": dict(os.environ), "cwd": "/", "tty": False}
        try:
            process = await self.start(request | {"hostname": "practice", "mounts": []})
        except StartError as error:
            self.is_isolated = False
            print(f"pods run without namespaces: {error}", file=sys.stderr)
        else:
            await process.wait()
            process.close()

    async def start(self, request: Json, *, stdin: bool = False) -> Process:
        """Start a program in a new container. Raises StartError."""
        more: Json = {"root": str(self._root)} if self.is_isolated else {}
        return await self._start(request | more, stdin=stdin)

    async def exec(self, container: Process, request: Json, *, stdin: bool) -> Process:
        """Start a program in a running container. Raises StartError."""
        more = {"pid": container.pid} if self.is_isolated else {}
        return await self._start(request | more, stdin=stdin)

    async def stop(self) -> None:
        self._stop_init()
        await asyncio.gather(*(process.wait() for process in list(self._processes)))

    async def _start(self, request: Json, *, stdin: bool) -> Process:
        control, their_control = socket.socketpair()
        process = Process(control)
        streams = dict[int, int]()
        theirs = [their_control.detach()]

        for stream in range(3):
            if request["tty"] or (stream == 0 and not stdin):
                theirs.append(os.open(os.devnull, os.O_RDWR))
            else:
                read, write = os.pipe()
                streams[stream] = read if stream else write
                theirs.append(write if stream else read)

        self._processes.add(process)
        process.on_exit(self._processes.discard)
        try:
            self._send(theirs)
            for stream, descriptor in streams.items():
                await process.connect(stream, descriptor)
            await process.start(request)
        except BaseException:
            process.abandon()
            raise
        return process

    def _send(self, descriptors: list[int]) -> None:
        """Pass descriptors to container_init.py; start it if it does not run."""
        try:
            if not self._socket:
                raise BrokenPipeError
            socket.send_fds(self._socket, [b" "], descriptors)
        except OSError:
            self._launch()
            assert self._socket
            socket.send_fds(self._socket, [b" "], descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _launch(self) -> None:
        self._stop_init()
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "kubectl_sky_practice.container_init"]
        if not getattr(sys, "frozen", False):
            command = [sys.executable, "-I", "-S", "-c", _CODE, str(Path(__file__).parents[1])]
        with theirs:
            descriptor = theirs.fileno()
            command.append(str(descriptor))
            self._init = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True
            )

    def _stop_init(self) -> None:
        if self._socket and self._init:
            self._socket.close()
            self._init.wait()


def without_namespaces(request: Json, folder: Path) -> Json:
    """Return a request for a machine without namespaces, where programs see the host's files.

    Replace the paths of mounts in the command, the variables and the working directory.
    """
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    mounts = [*request["mounts"], Mount(HOME, str(home))]
    env = {name: _translate(text, mounts) for name, text in request["env"].items()}
    env |= {"PYTHONPATH": f"{home}:{env.get('PYTHONPATH', '')}".rstrip(":")}
    env |= {"PRACTICE_HOSTS": str(folder / "hosts")}
    command = [_translate(text, mounts) for text in request["command"]]
    cwd = str(home) if request["cwd"] == "/" else _translate(request["cwd"], mounts)
    return request | {"command": command, "cwd": cwd, "env": env}


def _translate(text: str, mounts: Iterable[Mount]) -> str:
    for mount in sorted(mounts, key=lambda mount: -len(mount.path)):
        path = re.escape(mount.path.rstrip("/"))
        text = re.sub(rf"(?<![\w./-]){path}(?![\w.-])", mount.source.replace("\\", "\\\\"), text)
    return text
