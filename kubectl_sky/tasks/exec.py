"""Run programs in a task, as its script does (`exec`), and copy files with its tar (`cp`)."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from posixpath import basename, dirname, normpath
from threading import Event, Lock, Thread
from typing import Any, BinaryIO

from msgspec import Struct

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program, Sink
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, NotFound, SkyError, UserError
from kubectl_sky.observe.escapes import harmless
from kubectl_sky.observe.logs import prefixed
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.sync.archive import packed
from kubectl_sky.sync.extract import extract
from kubectl_sky.tasks import multikueue
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, names

_MAX_PARALLEL = 32  # maximum number of parallel programs
_MAX_LINE_BYTES = 64 * 1024  # maximum bytes of an incomplete line that are buffered

# Sets the variables and the directory as start.sh and entry.sh do; the container has the rest.
_AS_TASK_SCRIPT = """
own=${KUBECTL_SKY_FILES-/kubectl-sky}/user
[ ! -d "$own" ] || export HOME="$own"
export NUM_NODES="${NUM_NODES-1}" NODE_RANK="${NODE_RANK-0}"
export SKYPILOT_NUM_NODES="${SKYPILOT_NUM_NODES-$NUM_NODES}" SKYPILOT_NODE_RANK="$NODE_RANK"
[ -z "$1" ] || export SKYPILOT_NODE_IPS="$1"
[ -z "$1" ] || export MASTER_ADDR="${MASTER_ADDR-${1%%
*}}"
export SKYPILOT_NUM_JOBS="${SKYPILOT_NUM_JOBS-1}" SKYPILOT_JOB_RANK="${2:-0}"
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"
shift 2
cd "${KUBECTL_SKY_START_DIRECTORY-$HOME/sky_workdir}" 2> /dev/null
exec "$@"
"""


class TaskEnvironment(Struct, frozen=True):
    """A task with its pods by name."""

    task: TaskStatus
    pods: Mapping[str, Json]

    def program(self, node: NodeStatus, command: Sequence[str], container: str = "") -> Program:
        """Return the program to run; the task's environment is set in its container only."""
        if node.pod not in self.pods:
            raise NotFound(f"{node.name} of task {self.task.id} was deleted")
        target = container or names.CONTAINER
        args = list(command)
        if target == names.CONTAINER:
            is_array = self.task.workload.independent_nodes
            addresses = [
                str(self.pods.get(peer.pod, {}).get("status", {}).get("podIP") or "")
                for peer in ([node] if is_array else self.task.nodes)
            ]
            lines = "\n".join(addresses) if all(addresses) else ""  # none until all have one
            index = str(node.index) if is_array else ""
            args = ["/bin/sh", "-c", _AS_TASK_SCRIPT, "sh", lines, index, *command]
        return Program(self.task.namespace, node.pod, target, args)


class Stream(Struct, frozen=True):
    """A byte sink; control sequences are neutralized on a terminal."""

    write: Callable[[bytes], object]
    terminal: bool = False


class Output(Struct, frozen=True):
    """The sinks for stdout, stderr and notes."""

    out: Stream
    err: Stream
    note: Callable[[str], None]


def task_environment(session: Session, task: TaskStatus) -> TaskEnvironment:
    selector = names.selector({names.TASK_ID: task.id})
    pods = objects.list_all(session, kinds.POD, task.namespace, label_selector=selector)
    return TaskEnvironment(task, {pod["metadata"]["name"]: pod for pod in pods})


def node_of_rank(task: TaskStatus, rank: int) -> NodeStatus:
    """Return the node with a rank. Raises UserError if there is none with a pod."""
    for candidate in task.nodes:
        if candidate.index == rank:
            return _require_running(task, candidate)
    last = max(candidate.index for candidate in task.nodes)
    raise UserError(f"task {task.id} has no rank {rank}", f"it has ranks 0 to {last}")


def _require_running(task: TaskStatus, node: NodeStatus) -> NodeStatus:
    if node.state.ended or not node.pod:
        state = "has ended" if node.state.ended else "has not started"
        raise UserError(
            f"{node.name} of task {task.id} {state}, so no command can run in it",
            f"see `kubectl sky status {task.id}`",
        )
    return node


def run_all(
    session: Session, environment: TaskEnvironment, command: Sequence[str], output: Output
) -> int:
    """Run a program in all nodes in parallel, prefixing lines with the node name.

    Of an array, only the running nodes count, if there are any. Returns 0 on success, otherwise the
    exit code of the lowest rank that failed.
    """
    task = environment.task
    running = [node for node in task.nodes if node.state is State.RUNNING]
    chosen = running if running and task.workload.independent_nodes else task.nodes
    nodes = [_require_running(task, node) for node in chosen]
    stop, lock = Event(), Lock()

    def run_in_node(node: NodeStatus) -> int:
        prefix = f"{node.name} | ".encode() if len(nodes) > 1 else b""
        out, err = _LineWriter(output.out, prefix, lock), _LineWriter(output.err, prefix, lock)
        try:
            program = environment.program(node, command)
            streams = Pipes(stdout=out.write, stderr=err.write, stop=stop)
            return executing.run(session, program, streams)
        except SkyError as error:
            output.note(f"{node.name}: {error}")
            return error.exit_code
        finally:
            out.flush()
            err.flush()

    with parallel.pool(_MAX_PARALLEL) as pool:
        try:
            codes = list(pool.map(run_in_node, nodes))
        finally:
            stop.set()  # after Ctrl-C, the pool would wait for all programs
    for node, code in zip(nodes, codes, strict=True):
        if code and len(nodes) > 1:
            output.note(f"{node.name}: exit code {code}")
    return next((code for code in codes if code), 0)


class _LineWriter:
    """Write complete lines with a prefix, so that nodes do not mix lines."""

    def __init__(self, stream: Stream, prefix: bytes, lock: Lock) -> None:
        self._stream, self._prefix, self._lock = stream, prefix, lock
        self._partial = b""

    def write(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _MAX_LINE_BYTES:
            lines, self._partial = [*lines, self._partial], b""
        if lines:
            self._write_lines(lines, final_newline=True)

    def flush(self) -> None:
        if self._partial:
            self._write_lines([self._partial], final_newline=False)

    def _write_lines(self, lines: list[bytes], final_newline: bool) -> None:
        if self._stream.terminal:
            lines = [harmless(line) for line in lines]
        with self._lock:
            self._stream.write(prefixed(lines, self._prefix, final_newline))


_REMOTE = re.compile(r"(?P<task>[^:/\\.]+):(?P<path>.*)", re.DOTALL)
_NO_TAR, _NO_FOLDER, _NOT_FOUND = 97, 98, 99
_RESOLVE_SECONDS = 60.0  # timeout to resolve a path
_IDLE_SECONDS = 120.0  # seconds without a byte in either direction
_MAX_PATH_BYTES = 16 * 1024  # maximum bytes of a path in a node

_FIND_SCRIPT = f"""
command -v tar > /dev/null || exit {_NO_TAR}
path=$1
case $path in "~" | "~/"*) path=$HOME${{path#"~"}} ;; esac
"""
_ABSOLUTE_SCRIPT = "case $path in /*) ;; *) path=$PWD/$path ;; esac"

# Prints the absolute target: expands ~, and appends the file name to an existing folder.
_RESOLVE_SCRIPT = f"""{_FIND_SCRIPT}
[ ! -d "$path" ] || path=${{path%/}}/$2
{_ABSOLUTE_SCRIPT}
[ -d "${{path%/*}}/" ] || exit {_NO_FOLDER}
printf %s "$path"
"""

# Writes a tar. A folder is named `.` in it; the name of a file does not matter.
_SEND_SCRIPT = f"""{_FIND_SCRIPT}
{_ABSOLUTE_SCRIPT}
[ ! -d "$path" ] || exec tar -cf - -C "$path" .
[ -e "$path" ] || [ -L "$path" ] || exit {_NOT_FOUND}
exec tar -chf - -C "${{path%/*}}/" "./${{path##*/}}"
"""


class CopyPath(Struct, frozen=True):
    """A path in a task, or a local path if `task` is empty."""

    task: str
    path: str


def parse_path(text: str) -> CopyPath:
    """Parse `FILE` or `TASK:PATH`; write a local name with a colon as `./a:b`."""
    match = _REMOTE.fullmatch(text)
    return CopyPath(match["task"], match["path"]) if match else CopyPath("", text)


def parse_paths(source: str, target: str) -> tuple[CopyPath, CopyPath]:
    """Parse the source and the target of a copy. Raises UserError unless one is in a task."""
    paths = parse_path(source), parse_path(target)
    if all(path.task for path in paths):
        raise UserError(
            "cannot copy from one node to another", "copy to a local path first, or use a volume"
        )
    if not any(path.task for path in paths):
        raise UserError("source or target must be in a task", "use TASK:PATH for it")
    return paths


def copy(
    session: Session,
    scope: Scope,
    paths: tuple[CopyPath, CopyPath],
    rank: int,
    note: Callable[[str], None],
) -> None:
    """Copy a file or folder to or from a node; `note` reports what is skipped."""
    source, target = paths
    session, task = multikueue.locate_task(session, scope, source.task or target.task)
    node = Node(session, task_environment(session, task), node_of_rank(task, rank), note)
    if source.task:
        node.get(source.path, target.path)
    else:
        node.put(source.path, target.path)


class Node(Struct, frozen=True):
    """A node to copy to and from; `note` reports what is skipped."""

    session: Session
    environment: TaskEnvironment
    node: NodeStatus
    note: Callable[[str], None]

    def put(self, source: str, target: str) -> None:
        """Copy a file or folder to the node; into the target if that is a folder."""
        local = Path.cwd() / normpath(source)
        if not os.path.lexists(local):
            raise UserError(f"{source}: no such file or folder")
        answer, given = FirstBytes(_MAX_PATH_BYTES, _MAX_PATH_BYTES), target or "."
        resolve = ["sh", "-c", _RESOLVE_SCRIPT, "sh", given, local.name]
        self._run(given, resolve, stdout=answer, seconds=_RESOLVE_SECONDS)
        if not answer.data.startswith(b"/"):
            raise ClusterError(f"{self.node.name} did not answer where {given} is")
        path = answer.data.decode(errors="surrogateescape")  # is used in the node only
        blocks = packed(local, basename(path), self.note)
        self._run(path, ["tar", "-xmof", "-", "-C", dirname(path)], stdin=blocks)

    def get(self, source: str, target: str) -> None:
        """Copy a file or folder from the node; into the target if that is a folder."""
        local = local_target(source, target)
        send = ["sh", "-c", _SEND_SCRIPT, "sh", source or "."]
        with _ProgramOutput(
            lambda stdout, stop: self._run(source, send, stdout=stdout, stop=stop)
        ) as stream:
            extract(stream, local, self.note)

    def _run(self, path: str, command: list[str], **pipes: Any) -> None:
        """Run sh or tar in the node. Raises SkyError if it fails."""
        stderr = FirstBytes()
        program = self.environment.program(self.node, command)
        code = executing.run(
            self.session, program, Pipes(**pipes, stderr=stderr, idle=_IDLE_SECONDS)
        )
        node = self.node.name
        if code == _NO_TAR:
            raise UserError(
                f"the image of {node} has no tar, which cp needs",
                f"to copy a single file, use `kubectl sky exec {self.environment.task.id} -i --"
                " sh -c 'cat > FILE' < FILE`",
            )
        if code in (_NO_FOLDER, _NOT_FOUND):
            what = "target folder" if code == _NO_FOLDER else "file or folder"
            hint = "" if path.startswith(("/", "~")) else "relative paths start in ~/sky_workdir"
            raise UserError(f"{path}: no such {what} in {node}", hint)
        if code:
            raise UserError(f"tar in {node} failed: {stderr.line or f'exit code {code}'}")


def local_target(source: str, target: str) -> Path:
    """Return the local path of a copy, named as the user typed it. Raises UserError."""
    words = [word for word in source.split("/") if word not in ("", ".")]
    if source.startswith("/") and not words:
        raise UserError("the root folder cannot be copied as a whole", "choose a folder in it")
    path = Path(target)
    if path.is_dir():
        if not words or words[-1] == ".." or words == ["~"]:
            raise UserError(
                f"{source or '.'}: the path does not end with a name for the local copy",
                f"add one to the target: {path / 'NAME'}",
            )
        path /= words[-1]
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such folder")
    return path


class _ProgramOutput:
    """Expose the output of a program as a file.

    An error of the program takes precedence over a UserError of the reader.
    """

    def __init__(self, run: Callable[[Sink, Event], None]) -> None:
        self._run = run
        self._stop = Event()
        self._error: SkyError | None = None
        reading, self._writing = os.pipe()
        self._file = os.fdopen(reading, "rb")
        self._thread: Thread | None = None

    def __enter__(self) -> BinaryIO:
        self._thread = parallel.run_daemon(self._send, name="cp")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None:
            self._stop.set()
        self._file.close()
        if self._thread:
            self._thread.join()
        if self._error and (kind is None or issubclass(kind, UserError)):
            raise self._error from None

    def _send(self) -> None:
        with os.fdopen(self._writing, "wb", buffering=0) as file, suppress(BrokenPipeError):
            try:
                self._run(file.write, self._stop)
            except SkyError as error:
                self._error = None if self._stop.is_set() else error
