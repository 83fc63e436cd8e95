"""Carry local files to pods: to each that waits for them, many at once, as long as it takes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from time import monotonic

from kubectl_sky import names
from kubectl_sky.actions import find
from kubectl_sky.actions.packing import Progress
from kubectl_sky.cluster.exec import Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden
from kubectl_sky.facts import Archive
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.sync import delivery
from kubectl_sky.sync.delivery import Outcome

_LOOK = 0.3  # seconds between two looks at the pods
_TOGETHER = 3.0  # seconds that the first pod waits for the others, to be sent the same stream
_TOLD = 10.0  # seconds without a pod to send to, after which the user is told
_AT_ONCE = 32
_TRIES = 3  # how often the same pod is sent what broke off on the way
_SCRIPT = f"{names.SCRIPTS_FOLDER}/unpack.sh"
# Says whether entry.sh waits for a number (10), has it already (0), or neither yet or no more.
_STATE = (
    '[ ! -e "$KUBECTL_SKY_FILES/arrived-$1" ] || exit 0;'
    ' [ ! -e "$KUBECTL_SKY_FILES/coming-$1" ] || exit 75;'
    ' [ ! -e "$KUBECTL_SKY_FILES/failed-$1" ] || exit 75;'
    ' [ ! -e "$KUBECTL_SKY_FILES/wanted-$1" ] || exit 10; exit 75'
)
_ARRIVED, _WANTED = 0, 10
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
    """Local files for all nodes of a task, and the number by which entry.sh knows them."""

    task_id: str
    number: str
    files: LocalFiles
    archive: Archive


# The bytes of a load as they are sent; what is called hears how many of the archive these are.
Blocks = Callable[[Load, Callable[[int], object]], Iterator[bytes]]


@dataclass(frozen=True)
class Where:
    """Which tasks: those with this label; `word` is what people call them."""

    namespace: str
    label: str
    id: str
    word: str


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

    def program(self, namespace: str, command: Sequence[str]) -> Program:
        """What is to run in its pod."""
        return Program(namespace, self.node.pod, names.CONTAINER, (*command, self.load.number))


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
        self._tries: Counter[tuple[str, str]] = Counter()

    def run(self, stop: Event) -> None:
        """Send until every node has everything or has ended, or until `stop`. Raises SkyError."""
        since, told = monotonic(), False
        ready_since: float | None = None
        while not stop.is_set():
            places, over = self._places()
            if over or not (places or self._lasting):
                return
            ready = self._ready(places)
            now = monotonic()
            if ready:
                ready_since = ready_since or now
                started = [place for place in places if place.node.pod]
                if len(ready) >= len(started) or now - ready_since > _TOGETHER:
                    self._send(ready)
                    since, ready_since = monotonic(), None
                    continue
            elif places and not told and now - since > _TOLD:
                self._tell()
                told = True
            stop.wait(_LOOK)

    @property
    def idle(self) -> bool:
        """Whether no node has had anything yet."""
        return not self._pods

    @property
    def late(self) -> bool:
        """Whether some node ended without its files."""
        return self._failed or bool(self._lacked - self._pods.keys())

    def _tell(self) -> None:
        count = f"{self.missing} node{'s' * (self.missing > 1)}"
        self._shown.note(f"files: {count} get them when they start; until then this has to run")

    def _places(self) -> tuple[list[Place], bool]:
        """Return who lacks what, and whether all tasks have ended. Raises ClusterError."""
        where = self._where
        found = find.labelled(self._session, where.namespace, where.label, where.id)
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
        self._lacked |= {place.key for place in places}
        return places, all(task.over for task in tasks.values())

    def _ready(self, places: Sequence[Place]) -> list[Place]:
        """Return those that want it now; forget those that have it."""
        there = [place for place in places if place.waits]
        if not there:
            return []
        command = ("/bin/sh", "-c", _STATE, "sh")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            states = list(pool.map(lambda place: self._asked(place, command), there))
        ready = []
        for place, state in zip(there, states, strict=True):
            if isinstance(state.error, Forbidden):
                raise state.error
            if not state.error and state.code == _ARRIVED:
                self._has(place)
            elif not state.error and state.code == _WANTED:
                ready.append(place)
        return ready

    def _asked(self, place: Place, command: Sequence[str]) -> Outcome:
        return delivery.run(self._session, place.program(self._where.namespace, command))

    def _send(self, places: Sequence[Place]) -> None:
        """Send each archive to all that want it, once."""
        by_digest: dict[str, list[Place]] = defaultdict(list)
        for place in places:
            by_digest[place.load.archive.digest].append(place)
        for together in by_digest.values():
            load = together[0].load
            programs = [
                place.program(self._where.namespace, ("/bin/sh", _SCRIPT)) for place in together
            ]
            with self._shown.progress(f"Sending {load.files.source}", load.archive.size) as advance:
                outcomes = delivery.send(self._session, programs, self._blocks(load, advance))
            for place, outcome in zip(together, outcomes, strict=True):
                self._heard(place, outcome)

    def _heard(self, place: Place, outcome: Outcome) -> None:
        """Note how it went. A pod that has gone is seen at the next look. Raises SkyError."""
        if not outcome.error and outcome.code == 0:
            self._has(place)
            return
        why = outcome.said.splitlines()[0] if outcome.said else f"exit {outcome.code}"
        passing = outcome.code in (_BROKE_OFF, _NOT_NOW) or outcome.code > _KILLED
        if outcome.error or passing:
            tried = (place.node.pod, place.load.number)
            self._tries[tried] += 1
            if self._tries[tried] < _TRIES and not isinstance(outcome.error, Forbidden):
                return
        what = f"{place.node.name} could not unpack {place.load.files.source}: {why}"
        problem = outcome.error or ClusterError(what)
        if not self._lasting and (outcome.error or passing):
            raise problem
        self._shown.note(f"files: {problem}")
        self._has(place)
        self._failed = True

    def _has(self, place: Place) -> None:
        self._pods[place.key] = place.node.pod


def _places(load: Load, task: TaskStatus) -> Iterator[Place]:
    return (Place(load, node) for node in task.nodes if not node.state.ended)
