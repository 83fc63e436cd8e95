"""Run a program in a container over a WebSocket, as `kubectl exec` does."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Any, BinaryIO, TypeGuard

from msgspec import Struct

from kubectl_sky.cluster import kubelets, objects, parallel
from kubectl_sky.cluster.errors import explain_kubelet
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.websocket import MAX_SEND_BYTES, WebSocket, connect
from kubectl_sky.errors import (
    ClusterError,
    KubeletUnreachable,
    NotFound,
    ProgramMissing,
    SkyError,
    TimedOut,
    Unreachable,
)
from kubectl_sky.words import kinds

V4 = "v4.channel.k8s.io"
V5 = "v5.channel.k8s.io"
PROTOCOLS = (V5, V4)  # V5 needs Kubernetes 1.30; only V5 can close stdin

Sink = Callable[[bytes], object]

_STDIN_CHANNEL = 0
_STDOUT_CHANNEL = 1
_STDERR_CHANNEL = 2
_STATUS_CHANNEL = 3
_RESIZE_CHANNEL = 4
_CLOSE_CHANNEL = 255
_CLOSE_SECONDS = 2.0  # seconds for the input threads to close their files
_MAX_MESSAGE_CHARACTERS = 1000  # characters shown of a message from the cluster


class FirstBytes:
    """A sink that keeps the first bytes of a program's output and limits the total."""

    def __init__(self, max_kept: int = 64 * 1024, limit: int = 16 << 20) -> None:
        self.data = b""
        self._max_kept = max_kept
        self._remaining = limit

    def __call__(self, data: bytes) -> None:
        """Receive output of the program. Raises ClusterError over the limit."""
        self.data += data[: self._max_kept - len(self.data)]
        self._remaining -= len(data)
        if self._remaining < 0:
            raise ClusterError("the program in the pod writes too many messages")

    @property
    def line(self) -> str:
        """The first non-empty line, truncated for a message."""
        lines = self.data.decode(errors="replace").strip().splitlines()
        return lines[0].strip()[:_MAX_MESSAGE_CHARACTERS] if lines else ""


class Program(Struct, frozen=True):
    """A command and the container to run it in; `title` names it in messages."""

    namespace: str
    pod: str
    container: str
    command: Sequence[str]
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or self.command[0]


class Pipes(Struct, frozen=True):
    """The input and output of a program.

    A separate thread reads `stdin`, no faster than the program does.
    """

    stdin: BinaryIO | Iterable[bytes] | None = None  # a file or blocks of bytes
    stdout: Sink = len
    stderr: Sink = len
    tty: bool = False  # a terminal: all output is stdout
    sizes: Iterable[tuple[int, int]] = ()  # its columns and rows, as they change
    seconds: float | None = None  # limit of the whole run
    idle: float | None = None  # limit of the seconds without a byte in either direction
    stop: Event | None = None  # which any thread may set


def run(session: Session, program: Program, pipes: Pipes) -> int:
    """Run a program until it exits and return its exit code.

    Raises NotFound if the pod or container is not found or not running, ProgramMissing, TimedOut,
    KubeletUnreachable, ClusterError, and any exception from reading `stdin` or writing to the
    sinks.
    """
    try:
        return _run(session, program, pipes)
    except KubeletUnreachable as error:
        raise kubelets.name_node(session, program.namespace, program.pod, error) from None


def _run(session: Session, program: Program, pipes: Pipes) -> int:
    with _open(session, program, pipes) as websocket:
        sender = _InputSender(websocket, pipes)
        try:
            status = _receive(websocket, pipes, sender)
        except TimeoutError:
            raise _explain_stop(program, pipes) from None
        except Unreachable as error:
            raise _explain_loss(program, error) from None
        finally:
            websocket.close()
            sender.finish()
    if status is None:
        raise _explain_loss(program, None)
    return _exit_code(program, status)


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield data as it arrives; do not wait for full blocks from a pipe or terminal."""
    read = getattr(file, "read1", file.read)
    while data := read(MAX_SEND_BYTES):
        yield data


def _is_file(source: BinaryIO | Iterable[bytes]) -> TypeGuard[BinaryIO]:
    return hasattr(source, "read")


def _open(session: Session, program: Program, pipes: Pipes) -> WebSocket:
    streams = ["stdin"] if pipes.stdin is not None else []
    streams += ["stdout", "tty" if pipes.tty else "stderr"]
    query = [(name, "true") for name in streams]
    query += [("container", program.container)]
    query += [("command", word) for word in program.command]

    path = objects.path(kinds.POD, program.namespace, program.pod, "exec")
    try:
        websocket = connect(session, path, query, PROTOCOLS)
    except ClusterError as error:
        raise _explain_refusal(program, error) from None

    if pipes.stdin is not None and not pipes.tty and websocket.protocol == V4:
        websocket.close()
        raise ClusterError(
            "this cluster does not support closing stdin",
            "Kubernetes 1.30 or newer is required",
        )
    return websocket


class _InputSender:
    """Send stdin and terminal sizes to a program, each from its own thread."""

    def __init__(self, websocket: WebSocket, pipes: Pipes) -> None:
        self._websocket = websocket
        # With a terminal, Ctrl-D ends the input. Closing stdin there would make a container runtime
        # drop the last output.
        self._can_close_stdin = websocket.protocol == V5 and not pipes.tty
        self._is_terminal = pipes.tty
        self.problem: Exception | None = None
        self.last_sent_at = monotonic()  # monotonic time of the last bytes sent
        self._threads: list[Thread] = []
        source = pipes.stdin
        if source is not None:
            self._start(self._input, iter(chunks(source) if _is_file(source) else source))
        if pipes.tty:
            self._start(self._sizes, iter(pipes.sizes))

    def finish(self) -> None:
        """Wait for the threads to close their sources; those of a terminal wait for keys."""
        if self._is_terminal or self.problem is not None:
            return
        for thread in self._threads:
            thread.join(_CLOSE_SECONDS)

    def _start(self, work: Callable[[Iterator[Any]], None], source: Iterator[Any]) -> None:
        self._threads.append(parallel.run_daemon(self._run, work, source, name="exec input"))

    def _run(self, work: Callable[[Iterator[Any]], None], source: Iterator[Any]) -> None:
        done = False
        try:
            work(source)
            done = True
        except Unreachable:
            pass  # the receiving thread gets the same error
        except (SkyError, OSError, ValueError) as error:
            self.problem = error
        finally:
            if not done:
                self._websocket.hang_up()
            close = getattr(source, "close", None)
            if close:
                close()

    def _input(self, blocks: Iterator[bytes]) -> None:
        for block in blocks:
            for begin in range(0, len(block), MAX_SEND_BYTES):
                self._websocket.send(
                    bytes([_STDIN_CHANNEL]) + block[begin : begin + MAX_SEND_BYTES]
                )
                self.last_sent_at = monotonic()
        if self._can_close_stdin:
            self._websocket.send(bytes([_CLOSE_CHANNEL, _STDIN_CHANNEL]))

    def _sizes(self, sizes: Iterator[tuple[int, int]]) -> None:
        for columns, rows in sizes:
            text = json.dumps({"Width": columns, "Height": rows})
            self._websocket.send(bytes([_RESIZE_CHANNEL]) + text.encode())


def _receive(websocket: WebSocket, pipes: Pipes, sender: _InputSender) -> Json | None:
    """Forward the output until the program exits; return its Status."""
    sinks = {_STDOUT_CHANNEL: pipes.stdout, _STDERR_CHANNEL: pipes.stderr}

    try:
        for message in _messages(websocket, pipes, sender):
            if message[0] == _STATUS_CHANNEL:
                with suppress(ValueError, RecursionError):
                    status = json.loads(message[1:])
                    return status if isinstance(status, dict) else None
                return None
            if message[0] in sinks:
                sinks[message[0]](message[1:])
    except Unreachable:
        if sender.problem:
            raise sender.problem from None
        raise
    return None


def _messages(websocket: WebSocket, pipes: Pipes, sender: _InputSender) -> Iterator[bytes]:
    """Yield messages that contain data after the channel number.

    Raises TimeoutError after `seconds`, or when no byte was sent or received for `idle`.
    """
    until = inf if pipes.seconds is None else monotonic() + pipes.seconds
    idle = inf if pipes.idle is None else pipes.idle
    last_active_at = monotonic()

    while True:
        limit = min(until, max(last_active_at, sender.last_sent_at) + idle)
        deadline = None if limit == inf else limit
        try:
            message = websocket.receive(pipes.stop, deadline)
        except TimeoutError:
            stopped = pipes.stop and pipes.stop.is_set()
            if stopped or monotonic() >= min(
                until, max(last_active_at, sender.last_sent_at) + idle
            ):
                raise
            continue

        if message is None:
            return
        last_active_at = monotonic()
        if len(message) > 1:
            yield message
            last_active_at = monotonic()  # exclude the time that the caller took


def _exit_code(program: Program, status: Json) -> int:
    """Return the exit code in a Status. Raises ClusterError if nothing ran."""
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            code = str(cause.get("message"))
            if re.fullmatch(r"[0-9]{1,3}", code):
                return int(code)
    message = " ".join(
        str(status.get("message") or "no reason given")[:_MAX_MESSAGE_CHARACTERS].split()
    )
    raise _explain_failure(program, message)


_PROGRAM_MISSING = re.compile(
    r'exec: "(?P<name>[^"]*)": (?:stat \S+: no such file|executable file not found|permission)'
)


def _explain_failure(program: Program, message: str) -> ClusterError | ProgramMissing:
    kubelet = explain_kubelet(program.pod, message)
    if kubelet:
        return kubelet
    missing = _PROGRAM_MISSING.search(message)
    if missing:
        what = f"program {missing['name']} not found in the image of pod {program.pod}"
        if "permission" in missing[0]:
            what = f"{missing['name']} in pod {program.pod} is not executable"
        return ProgramMissing(what)
    return ClusterError(f"cannot run {program.name} in pod {program.pod}: {message}")


_NOT_RUNNING = re.compile(
    r"container not found|current phase is (?P<phase>\w+)|does not have a host assigned"
    r"|unable to upgrade connection|is not running|not in pod"
)


def _explain_refusal(program: Program, error: ClusterError) -> ClusterError:
    """Translate the error if the container does not exist or is not running."""
    if isinstance(error, KubeletUnreachable):
        return error
    text = str(error)
    if " has no container " in text:
        return NotFound(error.what, error.hint)
    match = _NOT_RUNNING.search(text)
    if not match:
        return error
    why = f": it is {match['phase'].lower()}" if match["phase"] else ""
    what = f"container {program.container} of pod {program.pod} is not running{why}"
    return NotFound(what, f"see `kubectl describe pod {program.pod} -n {program.namespace}`")


def _explain_loss(program: Program, error: Unreachable | None) -> Unreachable:
    why = error.what if error else "the connection was closed"
    return Unreachable(f"{why}, and with it {program.name} in pod {program.pod}", "try again")


def _explain_stop(program: Program, pipes: Pipes) -> ClusterError:
    what = f"{program.name} in pod {program.pod}"
    if pipes.stop and pipes.stop.is_set():
        return ClusterError(f"{what} was not waited for")
    if pipes.seconds is None:
        return ClusterError(f"{what} stalled: no data for {pipes.idle or 0:g} seconds", "try again")
    return TimedOut(f"{what} did not finish within {pipes.seconds:g} seconds")
