"""`exec`: run a program in a task, with its variables and working directory."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event, Lock

from kubectl_sky import kinds, names
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program, Sink
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.observe.escapes import harmless
from kubectl_sky.observe.logs import prefixed
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus

__all__ = [
    "FirstBytes",
    "Inside",
    "Output",
    "Pipes",
    "Sink",
    "Stream",
    "inside",
    "node",
    "run",
    "run_all",
]

_AT_ONCE = 32  # maximum number of parallel programs
_LONGEST = 64 * 1024  # maximum bytes of an incomplete line that are buffered

# Sets the variables and the directory as start.sh and entry.sh do; the container has the rest.
_AS_TASK = """
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
cd ~/sky_workdir 2> /dev/null
exec "$@"
"""


@dataclass(frozen=True)
class Inside:
    """A task with the known IP addresses of its pods, by pod name."""

    task: TaskStatus
    addresses: Mapping[str, str]

    def program(self, node: NodeStatus, command: Sequence[str], container: str = "") -> Program:
        """Return the program to run; the task's environment is set in its container only."""
        target = container or names.CONTAINER
        args = list(command)
        if target == names.CONTAINER:
            args = ["/bin/sh", "-c", _AS_TASK, "sh", *self._told(node), *command]
        return Program(self.task.namespace, node.pod, target, args)

    def _told(self, node: NodeStatus) -> tuple[str, str]:
        """Return the node addresses, one per line, and the index of an array task.

        The addresses are empty until all nodes have one.
        """
        if self.task.workload.independent_nodes:
            return self.addresses.get(node.pod, ""), str(node.index)
        addresses = [self.addresses.get(peer.pod, "") for peer in self.task.nodes]
        return "\n".join(addresses) if all(addresses) else "", ""


@dataclass(frozen=True)
class Stream:
    """A byte sink; control sequences are neutralized on a terminal."""

    write: Callable[[bytes], object]
    terminal: bool = False


@dataclass(frozen=True)
class Output:
    """The sinks for stdout, stderr and notes."""

    out: Stream
    err: Stream
    note: Callable[[str], None]


def inside(session: Session, task: TaskStatus) -> Inside:
    """Look up the IP addresses of a task's nodes."""
    selector = names.selector(task_id=task.id)
    pods = objects.list_all(session, kinds.POD, task.namespace, label_selector=selector)
    addresses = {pod["metadata"]["name"]: pod.get("status", {}).get("podIP") for pod in pods}
    return Inside(task, {name: address for name, address in addresses.items() if address})


def node(task: TaskStatus, rank: int) -> NodeStatus:
    """Return the node with a rank. Raises UserError if there is none with a pod."""
    for candidate in task.nodes:
        if candidate.index == rank:
            return _running(task, candidate)
    last = max(candidate.index for candidate in task.nodes)
    raise UserError(f"task {task.id} has no rank {rank}", f"it has ranks 0 to {last}")


def _all(task: TaskStatus) -> Sequence[NodeStatus]:
    """Return all nodes; of an array, only the running ones, if there are any."""
    running = [candidate for candidate in task.nodes if candidate.state is State.RUNNING]
    return running if running and task.workload.independent_nodes else task.nodes


def _running(task: TaskStatus, found: NodeStatus) -> NodeStatus:
    if found.state.ended or not found.pod:
        state = "has ended" if found.state.ended else "has not started"
        raise UserError(
            f"{found.name} of task {task.id} {state}, so no command can run in it",
            f"see `kubectl sky status {task.id}`",
        )
    return found


def run(session: Session, program: Program, pipes: Pipes) -> int:
    """Run a program in one node and return its exit code."""
    return executing.run(session, program, pipes)


def run_all(session: Session, within: Inside, command: Sequence[str], output: Output) -> int:
    """Run a program in all nodes in parallel, prefixing lines with the node name.

    Returns 0 on success, otherwise the exit code of the lowest rank that failed.
    """
    nodes = [_running(within.task, found) for found in _all(within.task)]
    pipes = Pipes(stop=Event())
    lock = Lock()

    def one(found: NodeStatus) -> int:
        prefix = f"{found.name} | ".encode() if len(nodes) > 1 else b""
        out, err = _Lines(output.out, prefix, lock), _Lines(output.err, prefix, lock)
        try:
            program = within.program(found, command)
            return run(session, program, replace(pipes, stdout=out.take, stderr=err.take))
        except SkyError as error:
            output.note(f"{found.name}: {error}")
            return error.exit_code
        finally:
            out.rest()
            err.rest()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            codes = list(pool.map(one, nodes))
        except BaseException:  # Ctrl-C: otherwise the pool would wait for all programs
            assert pipes.stop
            pipes.stop.set()
            raise
    for found, code in zip(nodes, codes, strict=True):
        if code and len(nodes) > 1:
            output.note(f"{found.name}: exit code {code}")
    return next((code for code in codes if code), 0)


class _Lines:
    """Write complete lines with a prefix, so that nodes do not mix lines."""

    def __init__(self, stream: Stream, prefix: bytes, lock: Lock) -> None:
        self._stream, self._prefix, self._lock = stream, prefix, lock
        self._begun = b""

    def take(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        if len(self._begun) > _LONGEST:
            lines, self._begun = [*lines, self._begun], b""
        if lines:
            self._put(lines, whole=True)

    def rest(self) -> None:
        if self._begun:
            self._put([self._begun], whole=False)

    def _put(self, lines: list[bytes], whole: bool) -> None:
        if self._stream.terminal:
            lines = [harmless(line) for line in lines]
        with self._lock:
            self._stream.write(prefixed(lines, self._prefix, whole))
