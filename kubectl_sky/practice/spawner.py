"""Starts containers: a small process of its own, in which a fork takes less than a millisecond.

It imports next to nothing. Requests come over a socket, a line of JSON each with file descriptors
beside it; it answers with what became of them. All that it started dies with it.
"""

import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
from contextlib import suppress
from typing import Any, NoReturn

from kubectl_sky.practice import namespaces

Json = dict[str, Any]
_LINUX = sys.platform == "linux"
_MISSING = (FileNotFoundError, NotADirectoryError)


def _reason(command: str, error: OSError) -> str:
    """Say why a program did not start, as runc does."""
    if isinstance(error, _MISSING) and "/" not in command:
        return f'exec: "{command}": executable file not found in $PATH'
    text = (error.strerror or str(error)).lower()
    if error.filename not in (command, None):
        return f"{error.filename}: {text}"
    found = f"stat {command}: {text}" if isinstance(error, _MISSING) else text
    return f'exec: "{command}": {found}'


def _terminal(connection: int) -> list[int]:
    """Open a terminal of the container, and send the other end of it to the server."""
    own, other = os.openpty()
    with socket.socket(fileno=connection) as server:
        socket.send_fds(server, [b" "], [own])
    fcntl.ioctl(other, termios.TIOCSCTTY, 0)
    return [other] * 3


def _become(request: Json, descriptors: list[int], failed: int) -> NoReturn:
    """Turn into the program of a container. What fails is written to `failed`."""
    command = request["command"]
    try:
        os.umask(0)
        os.setsid()
        if "steps" in request:
            namespaces.enter(request["root"], request["steps"], request["hostname"])
        os.umask(0o022)
        os.makedirs(request["cwd"], exist_ok=True)
        os.chdir(request["cwd"])
        if request["tty"]:
            descriptors = _terminal(descriptors[0])
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        for ignored in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
            signal.SIGINT,
            signal.SIGQUIT,
            signal.SIGHUP,
        ):
            signal.signal(ignored, signal.SIG_DFL)
        if _LINUX:
            namespaces.drop_rights()
            namespaces.die_with_parent()
        os.execvpe(command[0], command, request["env"])
    except OSError as error:
        os.write(failed, _reason(command[0], error).encode())
    finally:
        os._exit(127)


def _join(request: Json, pid: int, descriptors: list[int], failed: int) -> NoReturn:
    """Run a command beside the program of a container, and end as it does."""
    status = 127 << 8
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if _LINUX:
            namespaces.die_with_parent()
        if request["isolated"]:
            namespaces.join(pid)
        child = os.fork()
        if not child:
            _become(request, descriptors, failed)
        for descriptor in (*descriptors, failed):
            os.close(descriptor)
        status = os.waitpid(child, 0)[1]
    except OSError as error:
        os.write(failed, str(error).encode())
    finally:
        os._exit(_code(status))


def _code(status: int) -> int:
    """Return the exit code of a status as shells and the kubelet count it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        return  # none of it is left


class Spawner:
    """Serves one socket until its other end is gone."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._input, self._output = b"", b""
        self._descriptors: list[int] = []
        self._pids: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._starting: dict[int, int] = {}  # the id by the pipe that closes when its program runs

    def serve(self) -> None:
        """Do what is asked."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        while True:
            output = select.POLLOUT if self._output else 0
            for descriptor in (woken, *self._starting):
                poll.register(descriptor, select.POLLIN)
            poll.register(self._server, select.POLLIN | output)
            for descriptor, what in poll.poll():
                if descriptor == woken:
                    os.read(woken, 4096)
                    self._reap()
                elif descriptor != self._server.fileno():
                    poll.unregister(descriptor)
                    self._started(descriptor)
                elif what & select.POLLOUT:
                    sent = self._server.send(self._output, socket.MSG_DONTWAIT)
                    self._output = self._output[sent:]
                elif not self._receive():
                    return

    def _receive(self) -> bool:
        data, descriptors, *_ = socket.recv_fds(self._server, 1 << 16, 64)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._descriptors += descriptors
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "signal" in request:
                self._kill(request)
            else:
                self._start(request)
        return bool(data)

    def _start(self, request: Json) -> None:
        count = 1 if request["tty"] else 3
        mine, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        started, failed = os.pipe()
        joined = self._pids.get(request.get("into", 0), 0)
        try:
            new = "steps" in request
            pid = namespaces.clone() if new else os.fork()
            if not pid and "into" in request:
                _join(request, joined, mine, failed)
            elif not pid:
                _become(request, mine, failed)
            self._ids[pid], self._pids[request["id"]] = request["id"], pid
            self._starting[started] = request["id"]
        except OSError as error:
            os.close(started)
            self._tell({"id": request["id"], "error": str(error), "code": 127})
        finally:
            for descriptor in (*mine, failed):
                os.close(descriptor)

    def _started(self, descriptor: int) -> None:
        if descriptor in self._starting:
            error = os.read(descriptor, 4096).decode()
            os.close(descriptor)
            self._tell({"id": self._starting.pop(descriptor), "error": error})

    def _kill(self, request: Json) -> None:
        pid = self._pids.get(request["id"])
        if pid:
            if request["signal"] == signal.SIGKILL:
                _kill_group(pid)
            os.kill(pid, request["signal"])

    def _reap(self) -> None:
        while self._ids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            number = self._ids.pop(pid)
            for descriptor in [
                one for one, starting in self._starting.items() if starting == number
            ]:
                self._started(descriptor)
            del self._pids[number]
            _kill_group(pid)  # what it leaves behind where there are no namespaces
            self._tell({"id": number, "code": _code(status)})

    def _tell(self, report: Json) -> None:
        self._output += json.dumps(report).encode() + b"\n"


def _isolates() -> bool:
    """Try in another process: what fails half way cannot be undone."""
    child = os.fork()
    if not child:
        with suppress(OSError):
            namespaces.isolate()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def main(descriptor: int) -> None:
    """Serve a socket; where there are no namespaces, a container that shall have some fails."""
    server = socket.socket(fileno=descriptor)
    server.set_inheritable(False)  # no container may have it
    if _LINUX and _isolates():
        namespaces.isolate()
    with suppress(ConnectionError):
        Spawner(server).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
