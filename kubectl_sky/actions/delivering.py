"""Send the files that are too large for the cluster's objects straight to a task's pods."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.actions import find, packing
from kubectl_sky.actions.packing import Progress
from kubectl_sky.actions.stop import stop
from kubectl_sky.cluster.exec import Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Interrupted, SkyError, UserError
from kubectl_sky.facts import Archive
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.sync import delivery
from kubectl_sky.sync.archive import Unsendable

_LOOK = 0.3  # seconds between two looks at the pods
_TOGETHER = 3.0  # seconds that the first pod waits for the others, to be sent the same stream
_TOLD = 10.0  # seconds without a pod to send to, after which the user is told
_AT_ONCE = 32
_SCRIPT = f"{names.SCRIPTS_FOLDER}/unpack.sh"
# Says whether entry.sh waits for a number (10), has it already (0), or is not there yet.
_STATE = (
    '[ ! -e "$KUBECTL_SKY_FILES/arrived-$1" ] || exit 0;'
    ' [ ! -e "$KUBECTL_SKY_FILES/wanted-$1" ] || exit 10; exit 75'
)
_ARRIVED, _WANTED = 0, 10


@dataclass(frozen=True)
class Shown:
    """How the user is told: bytes as they go by, and notes."""

    progress: Progress
    note: Callable[[str], None]


def refuse(plans: Sequence[Plan]) -> None:
    """Refuse files that only this command can send, for tasks that start when it has gone."""
    for plan in plans:
        for one in plan.cargo.streamed.values():
            if len(plans) > 1 or plan.array:
                raise UserError(
                    f"{one.source}: is too large for ConfigMaps, and tasks that start later than"
                    " others could not get it from here",
                    "leave out what they do not need by .skyignore, or put it into a volume",
                )


def deliver(session: Session, plan: Plan, archives: Mapping[str, Archive], shown: Shown) -> None:
    """Send the files to every node of a task as soon as it waits for them.

    When that fails, or at Ctrl-C, the task is removed: it could not run. Raises SkyError.
    """
    if not plan.cargo.streamed:
        return
    task = find.task(session, find.Scope(plan.namespace, None), plan.id)
    try:
        for number, one in plan.cargo.streamed.items():
            _Delivery(session, task, number, one).run(archives[one.path], shown)
    except KeyboardInterrupt:
        stop(session, [task])
        raise Interrupted("interrupted", f"task {task.id} was removed: it lacks files") from None
    except SkyError as error:
        stop(session, [task])
        gone = f"task {task.id} was removed: it lacks files"
        raise type(error)(f"{error.what}; {gone}", error.then) from None


class _Delivery:
    """One archive on its way to the nodes of a task; `missing` are the ranks without it."""

    def __init__(self, session: Session, task: TaskStatus, number: str, one: LocalFiles) -> None:
        self.session = session
        self.task = task
        self.number = number
        self.one = one
        self.missing = {node.index for node in task.nodes}

    def run(self, archive: Archive, shown: Shown) -> None:
        """Send until every node has it, or has ended."""
        looked, told = time.monotonic(), False
        while self.missing:
            ready = self._ready()
            waited = time.monotonic() - looked
            if ready and (len(ready) == len(self.missing) or waited > _TOGETHER):
                self._send(ready, archive, shown)
                looked = time.monotonic()
                continue
            if not ready and not told and waited > _TOLD:
                count = f"{len(self.missing)} node{'s' * (len(self.missing) > 1)}"
                shown.note(f"files: {count} get them when they start; until then this has to run")
                told = True
            time.sleep(_LOOK)

    def _ready(self) -> list[NodeStatus]:
        """Return the nodes that wait for the archive; forget those that need it no more."""
        seen = find.again(self.session, self.task)
        if seen is None:
            raise ClusterError(f"task {self.task.id} was deleted before its files had arrived")
        self.missing -= {node.index for node in seen.nodes if node.state.ended}
        there = [
            node
            for node in seen.nodes
            if node.index in self.missing and node.state is State.RUNNING and node.pod
        ]
        if not there:
            return []
        command = ("/bin/sh", "-c", _STATE, "sh", self.number)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            programs = [self._program(node, command) for node in there]
            states = pool.map(lambda program: delivery.run(self.session, program), programs)
            found = {node.index: (node, state) for node, state in zip(there, states, strict=True)}
        arrived = {
            index
            for index, (_, state) in found.items()
            if state.code == _ARRIVED and not state.error
        }
        self.missing -= arrived
        return [node for node, state in found.values() if state.code == _WANTED]

    def _send(self, nodes: Sequence[NodeStatus], archive: Archive, shown: Shown) -> None:
        programs = [self._program(node, ("/bin/sh", _SCRIPT, self.number)) for node in nodes]
        source = packing.source(self.one)
        try:
            with shown.progress(f"Sending {self.one.source}", archive.size) as advance:
                blocks = delivery.packed(source, archive.digest, advance)
                outcomes = delivery.send(self.session, programs, blocks)
        except Unsendable as error:
            refused = error.refusals[0]
            what = f"{self.one.source}: {refused.name} {refused.reason}".replace("  ", " ")
            raise UserError(what, refused.hint) from None
        for node, outcome in zip(nodes, outcomes, strict=True):
            if outcome.error:
                raise outcome.error
            if outcome.code:
                why = outcome.said.splitlines()[0] if outcome.said else f"exit {outcome.code}"
                raise ClusterError(f"{node.name} could not unpack {self.one.source}: {why}")
        self.missing -= {node.index for node in nodes}

    def _program(self, node: NodeStatus, command: Sequence[str]) -> Program:
        return Program(self.task.namespace, node.pod, names.CONTAINER, command)
