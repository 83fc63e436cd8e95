"""Carry local files to pods: to each that waits for them, many at once, as long as it takes."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event, Lock
from time import monotonic

from kubectl_sky import names
from kubectl_sky.actions import find
from kubectl_sky.actions.packing import Progress
from kubectl_sky.cluster.exec import Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotFound, UserError
from kubectl_sky.facts import Archive
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.sync import delivery
from kubectl_sky.sync.delivery import Outcome

_LOOK = 0.3  # seconds between two looks at the pods
_TOLD = 10.0  # seconds without a pod to send to, after which the user is told
_AT_ONCE = 32
_PATIENCE = 30.0  # seconds in which the same pod is sent again what broke off on the way
_SCRIPT = f"{names.SCRIPTS_FOLDER}/unpack.sh"
_BROKE_OFF, _NOT_NOW = 74, 75  # how unpack.sh ends where it may be tried again
_KILLED = 128

_Key = tuple[str, str, int]


@dataclass(frozen=True)
class Shown:
    """How the user is told: bytes as they go by, and notes."""

    progress: Progress
    note: Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """Local files for all nodes of a task, and the number by which entry.sh knows them.

    `shelved` is whether a volume keeps them, from which the nodes take them once it has them.
    """

    task_id: str
    number: str
    files: LocalFiles
    archive: Archive
    shelved: bool = False


# The bytes of a load as they are sent; what is called hears how many of the archive these are.
Blocks = Callable[[Load, Callable[[int], object]], Iterator[bytes]]


@dataclass(frozen=True)
class Where:
    """Which tasks: those with this label; `word` is what people call them.

    `known` are the uids of the objects that run them, as far as this command has sent them.
    """

    namespace: str
    label: str
    id: str
    word: str
    known: Collection[str] = ()


@dataclass(frozen=True)
class Place:
    """A node that lacks a load."""

    load: Load
    node: NodeStatus

    @property
    def key(self) -> _Key:
        """The node and the load, whichever pod the node has."""
        return self.load.task_id, self.load.number, self.node.index

    @property
    def waits(self) -> bool:
        """Whether its pod runs and may want it."""
        node = self.node
        return bool(node.pod) and node.state is State.RUNNING and node.exit_code is None


class Courier:
    """Local files on their way to the nodes of one or more tasks.

    `blocks` yields the bytes of a load. One that is `lasting` goes on when all nodes have theirs,
    for those that start again. A node that cannot unpack its files fails, and says so itself.
    """

    def __init__(
        self,
        session: Session,
        where: Where,
        loads: Sequence[Load],
        shown: Shown,
        blocks: Blocks,
        lasting: bool = False,
    ) -> None:
        self.missing = 0  # how many nodes lack something that they may still want
        self._session = session
        self._where = where
        self._loads = loads
        self._shown = shown
        self._blocks = blocks
        self._lasting = lasting
        self._failed = False
        self._lacked: set[_Key] = set()
        self._pods: dict[_Key, str] = {}
        self._objects: set[str] = set()  # uids of what runs the tasks
        self._kept: set[str] = set()  # hashes of what has arrived somewhere
        self._broken: dict[tuple[str, str], float] = {}  # when it first broke off
        self._running: dict[_Key, tuple[Place, Future[Outcome]]] = {}
        self._over = Event()
        self._bar = Lock()

    @property
    def idle(self) -> bool:
        """Whether no node has had anything yet."""
        return not self._pods

    @property
    def late(self) -> bool:
        """Whether some node ended without its files."""
        return self._failed or bool(self._lacked - self._pods.keys())

    def run(self, stop: Event) -> None:
        """Send until every node has everything or has ended, or until `stop`. Raises SkyError."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="send") as pool, ExitStack() as bar:
            try:
                self._lead(stop, pool, bar)
            finally:
                self._over.set()

    def _lead(self, stop: Event, pool: ThreadPoolExecutor, bar: ExitStack) -> None:
        since, advance = monotonic(), None
        told = False
        while not stop.is_set():
            places, over = self._places()
            if over or not (places or self._lasting):
                return
            for place in self._next(places):
                advance = advance or self._advance(bar)
                self._running[place.key] = place, pool.submit(self._carry, place, advance)
            if not self._running and not told and places and monotonic() - since > _TOLD:
                self._tell()
                told = True
            self._pause(stop)
            self._hear()

    def _tell(self) -> None:
        count = f"{self.missing} node{'s' * (self.missing > 1)}"
        self._shown.note(f"files: {count} get them when they start; until then this has to run")

    def _advance(self, bar: ExitStack) -> Callable[[int], object]:
        """Begin to show how the bytes go by that are missing now."""
        each = {load.files.source: load.archive.size for load in self._loads}
        label = f"Sending {' and '.join(each)}"
        times = 1 if all(load.shelved for load in self._loads) else self.missing
        update = bar.enter_context(self._shown.progress(label, sum(each.values()) * times))

        def advance(count: int) -> None:
            with self._bar:
                update(count)

        return advance

    def _places(self) -> tuple[list[Place], bool]:
        """Return who lacks what, and whether all tasks have ended. Raises ClusterError."""
        where = self._where
        known = {*where.known, *self._objects}
        found = find.labelled(self._session, where.namespace, where.label, where.id, known)
        self._objects.update(uid for task in found for uid in task.uids.values())
        tasks = {task.id: task for task in found}
        if not tasks and not self._lasting:
            what = f"{where.word} {where.id} was deleted before its files had arrived"
            raise ClusterError(what)
        places = [
            place
            for load in self._loads
            if load.task_id in tasks
            for place in _places(load, tasks[load.task_id])
            if self._pods.get(place.key, "") != place.node.pod or not place.node.pod
        ]
        self.missing = len({(place.load.task_id, place.node.index) for place in places})
        # what a volume keeps a node may have taken by itself
        self._lacked |= {place.key for place in places if not place.load.shelved}
        return places, all(task.over for task in tasks.values())

    def _next(self, places: Sequence[Place]) -> Iterator[Place]:
        """Yield those that can be sent something now: to each node one after the other.

        What a volume keeps is sent to one node, and is there for the others.
        """
        begun = {(place.load.task_id, place.node.index) for place, _ in self._running.values()}
        coming = {place.load.archive.digest for place, _ in self._running.values()} - self._kept
        for place in places:
            node, digest = (place.load.task_id, place.node.index), place.load.archive.digest
            first = place.load.shelved and digest not in self._kept
            if place.waits and node not in begun:
                begun.add(node)  # what comes next to it waits for this
                if not (first and digest in coming):
                    coming.add(digest)
                    yield place

    def _carry(self, place: Place, advance: Callable[[int], object]) -> Outcome:
        """Send a node one load, in a thread of the pool."""
        command = ("/bin/sh", _SCRIPT, place.load.number)
        program = Program(self._where.namespace, place.node.pod, names.CONTAINER, command)
        return delivery.send(self._session, program, self._blocks(place.load, advance), self._over)

    def _pause(self, stop: Event) -> None:
        """Wait for the next look, or until something has arrived."""
        futures = [future for _, future in self._running.values()]
        if futures:
            wait(futures, _LOOK, FIRST_COMPLETED)
        else:
            stop.wait(_LOOK)

    def _hear(self) -> None:
        """Take note of what has arrived, or broke off. Raises SkyError."""
        for place, future in list(self._running.values()):
            if future.done():
                del self._running[place.key]
                self._heard(place, future.result())

    def _heard(self, place: Place, outcome: Outcome) -> None:
        """Note how it went. A pod that has gone is seen at the next look. Raises SkyError."""
        if not outcome.error and outcome.code == 0:
            self._pods[place.key] = place.node.pod
            self._kept.add(place.load.archive.digest)
            return
        if outcome.code == _NOT_NOW or isinstance(outcome.error, NotFound):
            return
        why = outcome.said or f"exit {outcome.code}"
        passing = bool(outcome.error) or outcome.code == _BROKE_OFF or outcome.code > _KILLED
        if isinstance(outcome.error, Forbidden | UserError):
            raise outcome.error
        if passing:
            first = self._broken.setdefault((place.node.pod, place.load.number), monotonic())
            if monotonic() - first < _PATIENCE:
                return
        what = f"{place.node.name} could not unpack {place.load.files.source}: {why}"
        problem = outcome.error or ClusterError(what)
        if passing and not self._lasting:
            raise problem
        self._shown.note(f"files: {problem}")
        self._pods[place.key] = place.node.pod
        self._failed = True


def _places(load: Load, task: TaskStatus) -> Iterator[Place]:
    return (Place(load, node) for node in task.nodes if not node.state.ended)
