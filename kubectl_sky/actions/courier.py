"""Upload local files to waiting pods in parallel until all pods have them."""

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

_LOOK = 0.3  # seconds between checks of the pods
_TOLD = 10.0  # seconds without a pod to send to, until a note is written
_AT_ONCE = 32
_PATIENCE = 30.0  # seconds for which an interrupted upload to a pod is retried
_SCRIPT = f"{names.SCRIPTS_FOLDER}/unpack.sh"
_BROKE_OFF, _NOT_NOW = 74, 75  # exit codes of unpack.sh that allow a retry
_KILLED = 128

_Key = tuple[str, str, int]


@dataclass(frozen=True)
class Shown:
    """The user output: progress in bytes, and notes."""

    progress: Progress
    note: Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """Local files for all nodes of a task; `number` identifies them in entry.sh.

    `shelved` is whether they go to the code cache volume, from which all nodes then read them.
    """

    task_id: str
    number: str
    files: LocalFiles
    archive: Archive
    shelved: bool = False


# Yields the bytes to send for a load; the callback receives the number of archive bytes sent.
Blocks = Callable[[Load, Callable[[int], object]], Iterator[bytes]]


@dataclass(frozen=True)
class Where:
    """Select tasks by a label; `word` is "task", "pipeline" or "group".

    `known` holds the uids of the workload objects that this command has sent.
    """

    namespace: str
    label: str
    id: str
    word: str
    known: Collection[str] = ()


@dataclass(frozen=True)
class Place:
    """A node that still needs a load."""

    load: Load
    node: NodeStatus

    @property
    def key(self) -> _Key:
        """Identify the node and the load, independent of the pod."""
        return self.load.task_id, self.load.number, self.node.index

    @property
    def waits(self) -> bool:
        """Whether the pod of the node is running and may wait for the load."""
        node = self.node
        return bool(node.pod) and node.state is State.RUNNING and node.exit_code is None


class Courier:
    """Upload local files to the nodes of one or more tasks.

    `blocks` yields the bytes of a load. With `lasting` it continues after all nodes have their
    files, to serve restarted nodes. A node that cannot unpack its files fails and reports that.
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
        self.missing = 0  # number of nodes that still need files
        self._session = session
        self._where = where
        self._loads = loads
        self._shown = shown
        self._blocks = blocks
        self._lasting = lasting
        self._failed = False
        self._lacked: set[_Key] = set()
        self._pods: dict[_Key, str] = {}
        self._objects: set[str] = set()  # uids of the workload objects
        self._kept: set[str] = set()  # hashes of the archives that some node has received
        self._broken: dict[tuple[str, str], float] = {}  # when an upload to a pod first failed
        self._running: dict[_Key, tuple[Place, Future[Outcome]]] = {}
        self._over = Event()
        self._bar = Lock()

    @property
    def idle(self) -> bool:
        """Whether no node has received files yet."""
        return not self._pods

    @property
    def late(self) -> bool:
        """Whether a node finished without its files."""
        return self._failed or bool(self._lacked - self._pods.keys())

    def run(self, stop: Event) -> None:
        """Upload until every node has its files or has finished, or until `stop` is set.

        Raises SkyError.
        """
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="send") as pool, ExitStack() as bar:
            try:
                self._lead(stop, pool, bar)
            finally:
                self._over.set()

    def _lead(self, stop: Event, pool: ThreadPoolExecutor, bar: ExitStack) -> None:
        started_at, advance = monotonic(), None
        notified = False
        while not stop.is_set():
            uploads, all_ended = self._places()
            if all_ended or not (uploads or self._lasting):
                return
            for upload in self._next(uploads):
                advance = advance or self._advance(bar)
                self._running[upload.key] = upload, pool.submit(self._carry, upload, advance)
            if not self._running and not notified and uploads and monotonic() - started_at > _TOLD:
                self._tell()
                notified = True
            self._pause(stop)
            self._hear()

    def _tell(self) -> None:
        count = f"{self.missing} node{'s' * (self.missing > 1)}"
        self._shown.note(f"files: {count} get them when they start; until then this has to run")

    def _advance(self, bar: ExitStack) -> Callable[[int], object]:
        """Start the progress bar for the bytes that are missing now."""
        sizes = {load.files.source: load.archive.size for load in self._loads}
        label = f"Sending {' and '.join(sizes)}"
        copies = 1 if all(load.shelved for load in self._loads) else self.missing
        update = bar.enter_context(self._shown.progress(label, sum(sizes.values()) * copies))

        def advance(count: int) -> None:
            with self._bar:
                update(count)

        return advance

    def _places(self) -> tuple[list[Place], bool]:
        """Return the pending uploads, and whether all tasks have finished.

        Raises ClusterError.
        """
        where = self._where
        uids = {*where.known, *self._objects}
        statuses = find.labelled(self._session, where.namespace, where.label, where.id, uids)
        self._objects.update(uid for task in statuses for uid in task.uids.values())
        tasks = {task.id: task for task in statuses}
        if not tasks and not self._lasting:
            message = f"{where.word} {where.id} was deleted before its files had arrived"
            raise ClusterError(message)
        uploads = [
            upload
            for load in self._loads
            if load.task_id in tasks
            for upload in _places(load, tasks[load.task_id])
            if self._pods.get(upload.key, "") != upload.node.pod or not upload.node.pod
        ]
        self.missing = len({(upload.load.task_id, upload.node.index) for upload in uploads})
        # a node may have read shelved files from the volume by itself
        self._lacked |= {upload.key for upload in uploads if not upload.load.shelved}
        return uploads, all(task.over for task in tasks.values())

    def _next(self, places: Sequence[Place]) -> Iterator[Place]:
        """Yield the uploads that can start now, at most one at a time per node.

        Files for a code cache volume are sent to one node; the others read them from the volume.
        """
        busy = {(upload.load.task_id, upload.node.index) for upload, _ in self._running.values()}
        in_transit = {
            upload.load.archive.digest for upload, _ in self._running.values()
        } - self._kept
        for upload in places:
            node, digest = (upload.load.task_id, upload.node.index), upload.load.archive.digest
            unseeded = upload.load.shelved and digest not in self._kept
            if upload.waits and node not in busy:
                busy.add(node)  # the next load of this node waits for this one
                if not (unseeded and digest in in_transit):
                    in_transit.add(digest)
                    yield upload

    def _carry(self, place: Place, advance: Callable[[int], object]) -> Outcome:
        """Send one load to a node, in a thread of the pool."""
        command = ("/bin/sh", _SCRIPT, place.load.number)
        program = Program(self._where.namespace, place.node.pod, names.CONTAINER, command)
        return delivery.send(self._session, program, self._blocks(place.load, advance), self._over)

    def _pause(self, stop: Event) -> None:
        """Wait for the next check, or until an upload has finished."""
        futures = [future for _, future in self._running.values()]
        if futures:
            wait(futures, _LOOK, FIRST_COMPLETED)
        else:
            stop.wait(_LOOK)

    def _hear(self) -> None:
        """Process the uploads that finished or failed. Raises SkyError."""
        for upload, future in list(self._running.values()):
            if future.done():
                del self._running[upload.key]
                self._heard(upload, future.result())

    def _heard(self, place: Place, outcome: Outcome) -> None:
        """Record the outcome of an upload. Raises SkyError.

        A deleted pod is noticed at the next check.
        """
        if not outcome.error and outcome.code == 0:
            self._pods[place.key] = place.node.pod
            self._kept.add(place.load.archive.digest)
            return
        if outcome.code == _NOT_NOW or isinstance(outcome.error, NotFound):
            return
        reason = outcome.said or f"exit {outcome.code}"
        transient = bool(outcome.error) or outcome.code == _BROKE_OFF or outcome.code > _KILLED
        if isinstance(outcome.error, Forbidden | UserError):
            raise outcome.error
        if transient:
            failed_at = self._broken.setdefault((place.node.pod, place.load.number), monotonic())
            if monotonic() - failed_at < _PATIENCE:
                return
        message = f"{place.node.name} could not unpack {place.load.files.source}: {reason}"
        error_to_report = outcome.error or ClusterError(message)
        if transient and not self._lasting:
            raise error_to_report
        self._shown.note(f"files: {error_to_report}")
        self._pods[place.key] = place.node.pod
        self._failed = True


def _places(load: Load, task: TaskStatus) -> Iterator[Place]:
    return (Place(load, node) for node in task.nodes if not node.state.ended)
