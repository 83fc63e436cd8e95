"""Run a program in a container, as `kubectl exec` does, over a websocket."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Any, BinaryIO, TypeGuard

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.websocket import LARGEST, WebSocket, connect
from kubectl_sky.errors import ClusterError, NotFound, ProgramMissing, SkyError, Unreachable

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
PROTOCOLS = (V5, V4)  # Kubernetes 1.30 and newer speak the first, and only it can end an input

Sink = Callable[[bytes], object]

_STDIN, _STDOUT, _STDERR, _ENDED, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_TIDY = 2.0  # seconds that what feeds the program gets for closing its files
_TEXT = 1000  # characters of a message of the cluster that are shown


class Head:
    """A sink that keeps the first bytes of what a program writes, and refuses a flood."""

    def __init__(self, kept: int = 64 * 1024, limit: int = 16 << 20) -> None:
        self.data = b""
        self._kept = kept
        self._left = limit

    def __call__(self, data: bytes) -> None:
        """Take what a program writes. Raises ClusterError when it is too much."""
        self.data += data[: self._kept - len(self.data)]
        self._left -= len(data)
        if self._left < 0:
            raise ClusterError("the program in the pod writes messages without end")

    @property
    def line(self) -> str:
        """The first line that says something, short enough for a message."""
        lines = self.data.decode(errors="replace").strip().splitlines()
        return lines[0].strip()[:_TEXT] if lines else ""


@dataclass(frozen=True)
class Program:
    """What is to run, and in which container."""

    namespace: str
    pod: str
    container: str
    command: Sequence[str]


@dataclass(frozen=True)
class Pipes:
    """What a program reads and where its output goes.

    `stdin` is a file or blocks of bytes, and is read in a thread of its own, no faster than the
    program reads. With a terminal (`tty`) all output is stdout, and `sizes` yields its columns
    and rows as they change. `seconds` bounds the whole run, and `idle` how long no byte may pass in
    either direction; `stop` may be set by any thread.
    """

    stdin: BinaryIO | Iterable[bytes] | None = None
    stdout: Sink = len
    stderr: Sink = len
    tty: bool = False
    sizes: Iterable[tuple[int, int]] = ()
    seconds: float | None = None
    idle: float | None = None
    stop: Event | None = None


def run(session: Session, program: Program, pipes: Pipes) -> int:
    """Run a program to its end and return its exit code.

    Raises NotFound where there is no such pod or container or it does not run, ProgramMissing,
    ClusterError, and whatever reading `stdin` or writing to the sinks raises.
    """
    with _open(session, program, pipes) as wire:
        feed = _Feed(wire, pipes)
        try:
            status = _receive(wire, pipes, feed)
        except TimeoutError:
            raise _stopped(program, pipes) from None
        except Unreachable as error:
            raise _lost(program, error) from None
        finally:
            wire.close()
            feed.finish()
    if status is None:
        raise _lost(program, None)
    return _exit_code(program, status)


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Read a file as it comes; a pipe or terminal is not waited for until a block is full."""
    read = getattr(file, "read1", file.read)
    while data := read(LARGEST):
        yield data


def _is_file(source: BinaryIO | Iterable[bytes]) -> TypeGuard[BinaryIO]:
    return hasattr(source, "read")


def _open(session: Session, program: Program, pipes: Pipes) -> WebSocket:
    wanted = {
        "stdin": pipes.stdin is not None,
        "stdout": True,
        "stderr": not pipes.tty,
        "tty": pipes.tty,
    }
    query = [(name, "true") for name, value in wanted.items() if value]
    query += [("container", program.container)]
    query += [("command", word) for word in program.command]
    path = objects.path(kinds.POD, program.namespace, program.pod, "exec")
    try:
        wire = connect(session, path, query, PROTOCOLS)
    except ClusterError as error:
        raise _refused(program, error) from None
    if pipes.stdin is not None and not pipes.tty and wire.protocol == V4:
        wire.close()
        raise ClusterError(
            "this cluster cannot be told where an input ends",
            "that needs Kubernetes 1.30 or newer",
        )
    return wire


class _Feed:
    """Sends a program's input and the sizes of its terminal, each from a thread of its own."""

    def __init__(self, wire: WebSocket, pipes: Pipes) -> None:
        self._wire = wire
        # the end of what is typed is typed too; told apart, a runtime would drop the last output
        self._ends = wire.protocol == V5 and not pipes.tty
        self.problem: Exception | None = None
        self.moved = monotonic()  # when the last bytes were sent
        self._threads: list[Thread] = []
        source = pipes.stdin
        if source is not None:
            self._start(self._input, iter(chunks(source) if _is_file(source) else source))
        if pipes.tty:
            self._start(self._sizes, iter(pipes.sizes))

    def finish(self) -> None:
        """Let the threads close what they read from; one that waits for a key is left behind."""
        for thread in self._threads:
            thread.join(_TIDY if self.problem is None else 0)

    def _start(self, work: Callable[[Iterator[Any]], None], source: Iterator[Any]) -> None:
        thread = Thread(target=self._run, args=(work, source), name="exec input", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, work: Callable[[Iterator[Any]], None], source: Iterator[Any]) -> None:
        done = False
        try:
            work(source)
            done = True
        except Unreachable:
            pass  # whoever receives is told so too
        except (SkyError, OSError, ValueError) as error:
            self.problem = error
        finally:
            if not done:
                self._wire.hang_up()
            close = getattr(source, "close", None)
            if close:
                close()

    def _input(self, blocks: Iterator[bytes]) -> None:
        for block in blocks:
            for begin in range(0, len(block), LARGEST):
                self._wire.send(bytes([_STDIN]) + block[begin : begin + LARGEST])
                self.moved = monotonic()
        if self._ends:
            self._wire.send(bytes([_CLOSE, _STDIN]))

    def _sizes(self, sizes: Iterator[tuple[int, int]]) -> None:
        for columns, rows in sizes:
            text = json.dumps({"Width": columns, "Height": rows})
            self._wire.send(bytes([_SIZE]) + text.encode())


def _receive(wire: WebSocket, pipes: Pipes, feed: _Feed) -> Json | None:
    """Pass the output on until the program has ended; return what is said of its end."""
    sinks = {_STDOUT: pipes.stdout, _STDERR: pipes.stderr}
    try:
        for message in _messages(wire, pipes, feed):
            if message[0] == _ENDED:
                return _decoded(message[1:])
            if message[0] in sinks:
                sinks[message[0]](message[1:])
    except Unreachable:
        if feed.problem:
            raise feed.problem from None
        raise
    return None


def _messages(wire: WebSocket, pipes: Pipes, feed: _Feed) -> Iterator[bytes]:
    """Yield the messages that hold more than the number of their channel.

    Raises TimeoutError when the time is over, or nothing was sent or received for too long.
    """
    until = inf if pipes.seconds is None else monotonic() + pipes.seconds
    idle = inf if pipes.idle is None else pipes.idle
    moved = monotonic()
    while True:
        limit = min(until, max(moved, feed.moved) + idle)
        try:
            message = wire.receive(pipes.stop, None if limit == inf else limit)
        except TimeoutError:
            stopped = pipes.stop and pipes.stop.is_set()
            if stopped or monotonic() >= min(until, max(moved, feed.moved) + idle):
                raise
            continue
        if message is None:
            return
        moved = monotonic()
        if len(message) > 1:
            yield message
            moved = monotonic()  # not counting the time that our side took


def _decoded(text: bytes) -> Json | None:
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def _exit_code(program: Program, status: Json) -> int:
    """Read the Status that ends a program. Raises ClusterError where it did not run at all."""
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            code = str(cause.get("message"))
            if re.fullmatch(r"[0-9]{1,3}", code):
                return int(code)
    message = " ".join(str(status.get("message") or "no reason given")[:_TEXT].split())
    raise _failed(program, message)


_MISSING = re.compile(
    r'exec: "(?P<name>[^"]*)": (?:stat \S+: no such file|executable file not found|permission)'
)


def _failed(program: Program, message: str) -> ClusterError | ProgramMissing:
    missing = _MISSING.search(message)
    if missing:
        what = f"there is no program {missing['name']} in the image of pod {program.pod}"
        if "permission" in missing[0]:
            what = f"{missing['name']} in pod {program.pod} is not a program that may be run"
        return ProgramMissing(what)
    return ClusterError(f"cannot run {program.command[0]} in pod {program.pod}: {message}")


_NOT_RUNNING = re.compile(
    r"container not found|current phase is (?P<phase>\w+)|does not have a host assigned"
    r"|unable to upgrade connection|is not running|not in pod"
)


def _refused(program: Program, error: ClusterError) -> ClusterError:
    """Say in the user's words why a program cannot run there."""
    text = str(error)
    if "is not valid for pod" in text:
        return NotFound(f"pod {program.pod} has no container {program.container}")
    found = _NOT_RUNNING.search(text)
    if not found:
        return error
    why = f": it is {found['phase'].lower()}" if found["phase"] else ""
    what = f"container {program.container} of pod {program.pod} does not run{why}"
    return NotFound(what, f"see `kubectl describe pod {program.pod} -n {program.namespace}`")


def _lost(program: Program, error: Unreachable | None) -> Unreachable:
    why = error.what if error else "the connection was closed"
    return Unreachable(f"{why}, and with it {program.command[0]} in pod {program.pod}", "try again")


def _stopped(program: Program, pipes: Pipes) -> ClusterError:
    what = f"{program.command[0]} in pod {program.pod}"
    if pipes.stop and pipes.stop.is_set():
        return ClusterError(f"{what} was not waited for")
    if pipes.seconds is None:
        return ClusterError(f"{what} stalled: no data for {pipes.idle or 0:g} seconds", "try again")
    return ClusterError(f"{what} has not ended within {pipes.seconds:g} seconds")
