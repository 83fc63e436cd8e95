"""Run programs in a task, as its script does."""

from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock
from typing import TypeVar

from msgspec import Struct

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import KubeletUnreachable, NotFound, SkyError, UserError
from kubectl_sky.observe.escapes import harmless
from kubectl_sky.observe.logs import prefixed
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.words import kinds, names
from kubectl_sky.words.pod_objects import NO_POD, Pod

_MAX_PARALLEL = 32  # maximum number of parallel programs
_MAX_LINE_BYTES = 64 * 1024  # maximum bytes of an incomplete line that are buffered

T = TypeVar("T")

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
    pods: Mapping[str, Pod]

    def program(self, node: NodeStatus, command: Sequence[str], container: str = "") -> Program:
        """Return the program to run; the task's environment is set in its container only.

        Raises NotFound, or KubeletUnreachable if the cluster node is known not to respond.
        """
        if node.pod not in self.pods:
            raise NotFound(f"{node.name} of task {self.task.id} was deleted")
        if node.lost_since:  # the API server would wait for ever, and kubectl, too
            what = f"cluster node {node.host} of pod {node.pod} does not respond"
            hint = f"`kubectl describe node {node.host}` shows a cluster admin why"
            raise KubeletUnreachable(what, hint, node=node.host)
        target = container or names.CONTAINER
        args = list(command)
        if target == names.CONTAINER:
            is_array = self.task.workload.independent_nodes
            addresses = [
                self.pods.get(peer.pod, NO_POD).status.pod_ip
                for peer in ([node] if is_array else self.task.nodes)
            ]
            lines = "\n".join(addresses) if all(addresses) else ""  # none until all have one
            index = str(node.index) if is_array else ""
            values = [f"{name}={value}" for name, value in node.sweep.items()]
            swept = ["env", *values] if values else []
            args = ["/bin/sh", "-c", _AS_TASK_SCRIPT, "sh", lines, index, *swept, *command]
        return Program(self.task.namespace, node.pod, target, args, command[0])


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
    return TaskEnvironment(task, {pod.metadata.name: pod for pod in pods})


def node_of_rank(task: TaskStatus, rank: int) -> NodeStatus:
    """Return the node with a rank. Raises UserError if there is none with a pod."""
    for candidate in task.nodes:
        if candidate.index == rank:
            return _require_running(task, candidate)
    raise find.unknown_rank(task, rank)


class NodeEnded(UserError):
    """A node of a task has ended: only its volumes and buckets can be read."""

    def __init__(self, task: TaskStatus, node: NodeStatus) -> None:
        results = task.results
        hint = f"what it wrote to {results.title}: `{task.results_step}`" if results else ""
        self.end = f"{node.name} of task {task.id} has ended"
        super().__init__(
            f"{self.end}, so no command can run in it",
            hint or f"see `kubectl sky status {task.id}`",
        )
        self.task = task


def _require_running(task: TaskStatus, node: NodeStatus) -> NodeStatus:
    if node.state.ended and not node.held_until:
        raise NodeEnded(task, node)
    is_unscheduled = node.state is State.PENDING and not node.host
    if not node.pod or is_unscheduled:
        raise UserError(
            f"{node.name} of task {task.id} has not started, so no command can run in it",
            f"run `kubectl sky doctor {task.id}` for the cause",
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
    lock = Lock()

    def run_in_node(node: NodeStatus, stop: Event) -> int:
        prefix = f"{node.name} | ".encode() if len(nodes) > 1 else b""
        out = _LineWriter(output.out, prefix, lock)
        err = _LineWriter(output.err, prefix, lock)
        try:
            program = environment.program(node, command)
            streams = Pipes(stdout=out.write, stderr=err.write, stop=stop)
            return executing.run(session, program, streams)
        except SkyError as error:
            output.note(f"{node.name}: {error}")
            raise
        finally:
            out.flush()
            err.flush()

    results = in_nodes(nodes, run_in_node)
    codes = [it.exit_code if isinstance(it, SkyError) else it for it in results.values()]
    for node, code in zip(nodes, codes, strict=True):
        if code and len(nodes) > 1:
            output.note(f"{node.name}: exit code {code}")
    return next((code for code in codes if code), 0)


def in_nodes(
    nodes: Sequence[NodeStatus], work: Callable[[NodeStatus, Event], T]
) -> dict[int, T | SkyError]:
    """Work in nodes in parallel until an event is set; return the results or errors, by rank."""
    stop = Event()

    def try_work(node: NodeStatus) -> T | SkyError:
        try:
            return work(node, stop)
        except SkyError as error:
            return error

    with parallel.pool(_MAX_PARALLEL) as pool:
        try:
            return dict(zip((it.index for it in nodes), pool.map(try_work, nodes), strict=True))
        finally:
            stop.set()  # after Ctrl-C, the pool would wait for all programs


def read_script(
    session: Session,
    pod: tuple[str, str],
    script: Sequence[str],
    seconds: float,
    stop: Event,
    stdin: bytes = b"",
) -> str:
    """Run a script of ours with its words in a pod, by namespace and name; return its output."""
    out = FirstBytes(1 << 20)
    program = Program(*pod, names.CONTAINER, ["/bin/sh", "-c", script[0], "sh", *script[1:]])
    blocks = (stdin,) if stdin else None
    executing.run(session, program, Pipes(blocks, stdout=out, seconds=seconds, stop=stop))
    return out.data.decode(errors="replace")


class _LineWriter:
    """Write complete lines with a prefix, so that nodes do not mix lines."""

    def __init__(self, stream: Stream, prefix: bytes, lock: Lock) -> None:
        self._stream = stream
        self._prefix = prefix
        self._lock = lock
        self._partial = b""

    def write(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _MAX_LINE_BYTES:
            lines = [*lines, self._partial]
            self._partial = b""
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
