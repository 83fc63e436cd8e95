"""Send local files to the pods of a task, each as soon as it waits for them."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from math import inf
from threading import Event, Lock
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import backoff, parallel
from kubectl_sky.cluster.exec import Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    KubeletUnreachable,
    NotFound,
    SkyError,
    UserError,
)
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.submitting import packing
from kubectl_sky.sync import delivery
from kubectl_sky.sync.archive import Unsendable
from kubectl_sky.sync.delivery import Copy, Outcome
from kubectl_sky.tasks import find
from kubectl_sky.tasks.pending import StartReporter
from kubectl_sky.tasks.stop import stop
from kubectl_sky.tasks.submissions import Submitted
from kubectl_sky.tasks.ui import UI, Advance
from kubectl_sky.words import names
from kubectl_sky.words.facts import Archive

_INTERVAL = 0.3  # seconds between checks of the pods
_NOTE_AFTER = 10.0  # seconds without a pod to send to, until a note is written
_MAX_PARALLEL = 32
_HEARTBEAT_INTERVAL = 60.0  # seconds; nodes wait 300 s for a client
_HEARTBEATS_AT_ONCE = 4
_HEARTBEAT = ("/bin/sh", "-c", ': > "${KUBECTL_SKY_FILES-/kubectl-sky}/client"')
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0  # seconds between uploads to a pod whose cluster node does not respond
_RETRY_FOR = 30.0  # seconds for which an interrupted upload to a pod is retried
_SCRIPT = f"{names.SCRIPTS_FOLDER}/unpack.sh"
_BROKEN_OFF = 74
_NOT_READY = 75  # exit codes of unpack.sh that allow a retry
_KILLED = 128

_Key = tuple[str, str, int]


class Upload(Struct, frozen=True):
    """Local files for all nodes of a task; `number` identifies them in entry.sh."""

    task_id: str
    number: str
    files: LocalFiles
    archive: Archive


class Uploads(Struct, frozen=True):
    """The uploads of a submit, with a snapshot of their files.

    `following` is whether the command keeps running after all nodes have their files.
    """

    items: tuple[Upload, ...]
    snapshots: "Snapshots"
    following: bool


class _Pending(Struct, frozen=True):
    """A node that still needs an upload."""

    upload: Upload
    node: NodeStatus

    @property
    def key(self) -> _Key:
        """Identify the node and the upload, independent of the pod."""
        return self.upload.task_id, self.upload.number, self.node.index

    @property
    def can_start(self) -> bool:
        """Whether the pod of the node is running and may wait for the upload."""
        node = self.node
        return node.started and not node.state.ended and node.exit_code is None


class _Silent(Struct, frozen=True):
    """A pod whose cluster node does not respond, and when to try again, in monotonic time."""

    failures: int
    next_at: float


class Uploader:
    """Upload local files to the nodes of one or more tasks.

    With `lasting` it continues after all nodes have their files, to serve restarted nodes. A node
    that cannot unpack its files fails and reports that.
    """

    def __init__(
        self,
        session: Session,
        submitted: Submitted,
        uploads: Uploads,
        ui: UI,
        lasting: bool = False,
    ) -> None:
        self.missing = 0  # number of nodes that still need files
        self._session = session
        self._submitted = submitted
        self._uploads = uploads.items
        self._snapshots = uploads.snapshots
        self._ui = ui
        self._lasting = lasting

        self._failed = False
        self._nodes_without: set[_Key] = set()
        self._pods: dict[_Key, str] = {}  # pods that have received their files
        self._failed_at: dict[tuple[str, str], float] = {}  # first failure of an upload to a pod
        self._silent: dict[str, _Silent] = {}  # by pod
        self._tasks: list[TaskStatus] = []

        suffix = "; its files are uploaded then"
        self._starts: defaultdict[str, StartReporter] = defaultdict(
            lambda: StartReporter(session, ui, suffix=suffix)
        )

        self._running: dict[_Key, tuple[_Pending, Future[Outcome]]] = {}
        self._heartbeats: list[Future[Outcome]] = []
        self._next_heartbeat = monotonic() + _HEARTBEAT_INTERVAL
        self._ended = Event()
        self._progress = Lock()

    @property
    def late(self) -> bool:
        return self._failed or bool(self._nodes_without - self._pods.keys())

    @property
    def _name(self) -> str:
        return f"{self._submitted.decision.word} {self._submitted.id}"

    def run(self, stop: Event) -> None:
        """Upload until every node has its files or has finished, or until `stop` is set.

        Raises SkyError.
        """
        pool = parallel.pool(_MAX_PARALLEL, "upload")
        beats = parallel.pool(_HEARTBEATS_AT_ONCE, "heartbeat")
        with pool, beats, ExitStack() as stack:
            try:
                self._loop(stop, pool, beats, stack)
            finally:
                self._ended.set()
                for task in self._tasks:
                    self._starts[task.id].end(task)

    def abandon(self) -> str:
        """Delete the tasks, and return a message.

        Tasks that an earlier command submitted are kept, and independent tasks if some node already
        has its files.
        """
        decision = self._submitted.decision
        if self._submitted.unchanged or (decision.independent and self._pods):
            return f"{self._name} goes on; {how_to_continue(self._submitted)}"
        try:
            stop(self._session, self._statuses(self._session))
        except SkyError as error:
            reason = f"could not be deleted ({error.what}), and its nodes lack files"
            return f"{self._name} {reason}; {how_to_continue(self._submitted)}"
        return f"{self._name} is being deleted because its nodes lack files"

    def _loop(
        self, stop: Event, pool: ThreadPoolExecutor, beats: ThreadPoolExecutor, stack: ExitStack
    ) -> None:
        started_at = monotonic()
        advance = None
        notified = False

        while not stop.is_set():
            pending, all_finished = self._pending(stop)
            if all_finished or not (pending or self._lasting):
                return

            for item in self._startable(pending):
                advance = advance or self._advance(stack)
                self._running[item.key] = item, pool.submit(self._send, item, advance)
            self._send_heartbeats(pending, beats)

            if not (self._running or notified or self._ui.live) and pending:
                notified = monotonic() - started_at > _NOTE_AFTER
                if notified:
                    number = self.missing
                    nodes = "the node starts" if number == 1 else f"the {number} nodes start"
                    then = "; keep this command running until then"
                    self._ui.note(f"uploading files when {nodes}{then}")

            if not self._lasting:  # otherwise the follower reports it
                for task in self._tasks:
                    self._starts[task.id].update(task)
            self._collect(stop)

    def _advance(self, stack: ExitStack) -> Advance:
        """Start the progress bar for the bytes that are missing now."""
        sizes = {upload.files.source: upload.archive.size for upload in self._uploads}
        label = f"Uploading {' and '.join(sizes)}"
        update = stack.enter_context(self._ui.transfer(label, sum(sizes.values()) * self.missing))

        def advance(count: int) -> None:
            with self._progress:
                update(count)

        return advance

    def _statuses(self, session: Session) -> list[TaskStatus]:
        decision = self._submitted.decision
        read = find.Read(names.selector({decision.label: decision.id}))
        return find.list_tasks(session, find.Scope(decision.namespace, None), read)

    def _pending(self, stop: Event) -> tuple[list[_Pending], bool]:
        """Return the pending uploads, and whether all tasks have finished.

        Raises ClusterError. With `lasting`, the follower gives up on an unreachable server.
        """
        seconds = inf if self._lasting else None
        statuses = self._tasks = self._statuses(self._session.patient(stop, seconds))

        tasks = {task.id: task for task in statuses}
        if not tasks and not self._lasting:
            raise ClusterError(f"{self._name} was deleted before its files were uploaded")

        pending = [
            item
            for upload in self._uploads
            if upload.task_id in tasks
            for node in tasks[upload.task_id].nodes
            if not node.state.ended
            for item in [_Pending(upload, node)]
            if self._pods.get(item.key, "") != item.node.pod or not item.node.pod
        ]

        self.missing = len({(item.upload.task_id, item.node.index) for item in pending})
        self._nodes_without |= {item.key for item in pending}
        return pending, all(task.over for task in tasks.values())

    def _startable(self, pending: Sequence[_Pending]) -> Iterator[_Pending]:
        """Yield the uploads that can start now, at most one at a time per node."""
        running = [item for item, _ in self._running.values()]
        busy = {(item.upload.task_id, item.node.index) for item in running}
        for item in pending:
            node = item.upload.task_id, item.node.index
            silent = self._silent.get(item.node.pod)
            if silent and monotonic() < silent.next_at:
                continue
            if item.can_start and node not in busy:
                busy.add(node)  # the next upload to this node waits for this one
                yield item

    def _send(self, item: _Pending, advance: Advance) -> Outcome:
        command = ("/bin/sh", _SCRIPT, item.upload.number)
        namespace = self._submitted.decision.namespace
        program = Program(namespace, item.node.pod, names.CONTAINER, command)
        blocks = self._snapshots.blocks(item.upload, advance)
        return delivery.send(self._session, program, blocks, self._ended)

    def _send_heartbeats(self, pending: Sequence[_Pending], beats: ThreadPoolExecutor) -> None:
        """Tell the nodes whose upload waits for other uploads that this client is connected."""
        if monotonic() < self._next_heartbeat or not all(one.done() for one in self._heartbeats):
            return
        self._next_heartbeat = monotonic() + _HEARTBEAT_INTERVAL
        sending = {item.node.pod for item, future in self._running.values() if future.running()}
        waiting = {item.node.pod for item in pending if item.can_start} - sending
        namespace = self._submitted.decision.namespace
        programs = [Program(namespace, pod, names.CONTAINER, _HEARTBEAT) for pod in waiting]
        self._heartbeats = [
            beats.submit(delivery.send, self._session, program, iter(()), self._ended)
            for program in programs
        ]

    def _collect(self, stop: Event) -> None:
        """Wait a moment, and process the uploads that finished or failed. Raises SkyError."""
        futures = [future for _, future in self._running.values()]
        if futures:
            wait(futures, _INTERVAL, FIRST_COMPLETED)
        else:
            stop.wait(_INTERVAL)
        for item, future in list(self._running.values()):
            if future.done():
                del self._running[item.key]
                self._record(item, future.result())

    def _record(self, item: _Pending, outcome: Outcome) -> None:
        """Record the outcome of an upload. Raises SkyError.

        A deleted pod is noticed at the next check. One whose cluster node does not respond is tried
        again for as long as it exists.
        """
        pod = item.node.pod
        if isinstance(outcome.error, KubeletUnreachable):
            self._record_silent(item, outcome.error)
            return
        self._silent.pop(pod, None)

        if not outcome.error and outcome.code == 0:
            self._pods[item.key] = pod
            return

        if outcome.code == _NOT_READY or isinstance(outcome.error, NotFound):
            return
        if isinstance(outcome.error, Forbidden | UserError):
            raise outcome.error

        transient = bool(outcome.error) or outcome.code == _BROKEN_OFF or outcome.code > _KILLED
        if transient:
            failed_at = self._failed_at.setdefault((pod, item.upload.number), monotonic())
            if monotonic() - failed_at < _RETRY_FOR:
                return

        reason = outcome.message or f"exit code {outcome.code}"
        message = f"{item.node.name} could not unpack {item.upload.files.source}: {reason}"
        error = outcome.error or ClusterError(message)

        if transient and not self._lasting:
            raise error
        self._ui.note(f"files: {error}")
        self._pods[item.key] = pod
        self._failed = True

    def _record_silent(self, item: _Pending, error: KubeletUnreachable) -> None:
        """Note once that a cluster node does not respond, and wait longer after each failure."""
        pod = item.node.pod
        self._failed_at.pop((pod, item.upload.number), None)
        silent = self._silent.get(pod)
        failures = silent.failures + 1 if silent else 1
        pause = backoff.delay(failures, _FIRST_PAUSE, _LONGEST_PAUSE)
        self._silent[pod] = _Silent(failures, monotonic() + pause)
        if not silent:
            node = f"its cluster node {error.node}".rstrip()
            then = f"{item.upload.files.source} is uploaded when it can be reached"
            self._ui.note(f"{item.node.name}: {node} {error.problem}; {then}")


def how_to_continue(submitted: Submitted) -> str:
    """Explain how the nodes that lack files get them."""
    return f"to upload the remaining files, run: kubectl sky submit FILE --id {submitted.id}"


class Snapshots:
    """Snapshots of local files: later edits do not change what is uploaded."""

    def __init__(self) -> None:
        self._by_digest: dict[str, Copy] = {}
        self._lock = Lock()

    def of(self, upload: Upload) -> Copy:
        digest = upload.archive.digest
        with self._lock:
            if digest not in self._by_digest:
                self._by_digest[digest] = Copy(packing.source(upload.files), digest)
            return self._by_digest[digest]

    def blocks(self, upload: Upload, advance: Callable[[int], object]) -> Iterator[bytes]:
        """Yield the bytes to send; `advance` gets the number of archive bytes sent.

        Raises UserError.
        """
        name = upload.files.source
        try:
            yield from self.of(upload).blocks(advance)
        except Unsendable as error:
            refusal = error.refusals[0]
            message = f"{name}: {refusal.name} {refusal.reason}".replace("  ", " ")
            raise UserError(message, refusal.hint) from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"{name}: cannot keep a snapshot until all nodes have it: {reason}"
            raise UserError(message, "set TMPDIR to a folder with enough space") from None
