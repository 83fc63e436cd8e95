"""Watch tasks: yield their status after each change."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from threading import Event
from time import monotonic
from typing import Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, ObjectSelection, SharedWatch, WatchEvent, watch_kinds
from kubectl_sky.errors import SkyError, TaskStopped, Unreachable
from kubectl_sky.observe import ownership, record, waiting
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.ownership import Key, Missing, TaskObjects
from kubectl_sky.observe.pipelines import PipelineStatus, pipelines
from kubectl_sky.observe.reasons import TERMINATING
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import evidence, find
from kubectl_sky.tasks.evidence import EvidenceRecorder
from kubectl_sky.tasks.find import Scope, Target
from kubectl_sky.words import kinds, names
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.notice import Notice
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject

_SETTLE_SECONDS = 2.0  # seconds until missing nodes are looked into
_GRACE_SECONDS = 30.0  # seconds until a task whose existing nodes have finished has failed
_MIN_UPDATE_INTERVAL = (
    0.2  # minimum seconds between updates: among many tasks, something always changes
)


class TaskDeleted(TaskStopped):
    """The objects of a task were deleted: a user has stopped it."""


class _WatchedObjects:
    """The objects that a watch has reported."""

    def __init__(self, watched: Iterable[Kind]) -> None:
        self.by_uid: dict[str, Object] = {}
        self._unsynced = set(watched)

    @property
    def complete(self) -> bool:
        return not self._unsynced

    def apply(self, change: WatchEvent) -> None:
        if change.type is Change.SYNCED:
            self._unsynced.discard(change.kind)
        elif change.type is Change.DELETED:
            self.by_uid.pop(change.object.metadata.uid, None)
        else:
            self.by_uid[change.object.metadata.uid] = change.object

    def split(self) -> tuple[list[TaskObject], list[Pod]]:
        items = list(self.by_uid.values())
        pods = [item for item in items if isinstance(item, Pod)]
        return [item for item in items if isinstance(item, TaskObject)], pods


class OwnershipResolver:
    """What the watched objects do not show: Jobs between pods and workloads, missing nodes.

    Each new owner of a pod is looked up once. What is known of a task stays until it is asked for.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jobs: dict[str, Object] = {}
        self._looked_up: set[str] = set()
        self._lacking_since: dict[Key, float] = {}
        self._missing: dict[Key, Missing] = {}
        self._looked_up_at = 0.0

    def decide(
        self, namespace: str | None, items: Sequence[TaskObject], pods: Sequence[Pod]
    ) -> list[TaskObjects]:
        """Return the objects of each task, and why it has lacked nodes for a while.

        Objects of one task are neither created nor deleted at exactly the same time.
        """
        new_pods = [pod for pod in pods if ownership.controller(pod) not in self._looked_up]
        for job in find.list_intermediate_jobs(self._session, namespace, items, new_pods):
            self._jobs[job.metadata.uid] = job
        self._looked_up.update(map(ownership.controller, new_pods))
        tasks = ownership.decide(items, pods, self._jobs.values())

        now = monotonic()
        lacking = [task for task in tasks if task.lacks]
        for key in {task.key for task in tasks} - {task.key for task in lacking}:
            self._lacking_since.pop(key, None)
            self._missing.pop(key, None)
        for task in lacking:
            self._lacking_since.setdefault(task.key, now)

        due = [task for task in lacking if now >= self._lacking_since[task.key] + _SETTLE_SECONDS]
        if due and now >= self._looked_up_at + _SETTLE_SECONDS:
            self._looked_up_at = now
            answer = find.explain_missing(self._session, namespace, due)
            self._missing |= {task.key: task.missing for task in answer}

        return [replace(task, missing=self._missing.get(task.key, task.missing)) for task in tasks]


class TaskUpdate(Struct, frozen=True):
    """The tasks of a scope, newest first, and their objects and pods."""

    tasks: list[TaskStatus]
    owned: list[TaskObjects]


def watch_owned(session: Session, scope: Scope, selector: str = "") -> Iterator[TaskUpdate | None]:
    """Yield the tasks of a scope after changes; None when idle."""
    selector = f"{scope.selector},{selector}".rstrip(",")
    watched = find.select_objects(session, scope.namespace, selector)
    resolver = OwnershipResolver(session)
    items = _WatchedObjects(watched.kinds)
    yielded_at = 0.0
    changed = False

    for change in watch_kinds(session, watched):
        if change:
            items.apply(change)
            changed = True

        if changed and items.complete and monotonic() > yielded_at + _MIN_UPDATE_INTERVAL:
            workloads, pods = items.split()
            workloads = scope.filter_owned(workloads)
            yielded_at = monotonic()
            try:
                owned = resolver.decide(scope.namespace, workloads, pods)
            except Unreachable:  # the watch decides when to give up
                yield None
                continue
            tasks = evidence.fold(session, owned)
            changed = any(map(_may_change, tasks))
            yield TaskUpdate(tasks, owned)
        elif not change:
            yield None


def watch_tasks(
    session: Session, scope: Scope, selector: str = ""
) -> Iterator[list[TaskStatus] | None]:
    """Yield the tasks of a scope, newest first; None when idle."""
    for update in watch_owned(session, scope, selector):
        yield update.tasks if update else None


def watch_pipeline(
    session: Session, scope: Scope, pipeline: PipelineStatus
) -> Iterator[PipelineStatus | None]:
    """Yield the current state of a pipeline or group, then each change; None when idle.

    Raises TaskDeleted when its tasks are deleted.
    """
    scope = replace(scope, namespace=pipeline.namespace)
    for tasks in watch_tasks(session, scope, f"{names.PIPELINE}={pipeline.id}"):
        if tasks is None:
            yield None
            continue
        matches = [item for item in pipelines(tasks) if item.id == pipeline.id]
        if not matches:
            subject = f"{pipeline.word} {pipeline.id} ({pipeline.name})"
            raise TaskDeleted(Notice(f"{subject} was stopped: its tasks have been deleted"))
        yield matches[0]


class WatchedTask(Struct, frozen=True):
    """A snapshot of a task and its pods."""

    task: TaskStatus
    pods: tuple[Pod, ...]


class SharedWatches:
    """The changes of several tasks, from one watch per kind for up to 100 of them.

    A context manager; each of the tasks has to be watched in it, or the others wait.
    """

    def __init__(self, session: Session, tasks: Iterable[TaskStatus]) -> None:
        self._stop = Event()
        self._watches: dict[Key, SharedWatch] = {}
        ids: dict[tuple[str, ReadKind[TaskObject]], list[str]] = defaultdict(list)
        for task in tasks:
            ids[task.namespace, task.workload.kind].append(task.id)
        for (namespace, kind), members in ids.items():
            for start in range(0, len(members), find.MAX_LABEL_VALUES):
                part = members[start : start + find.MAX_LABEL_VALUES]
                watched = kind, kinds.POD
                watch = SharedWatch(session, watched, namespace, names.TASK_ID, part, self._stop)
                self._watches |= {(namespace, task_id): watch for task_id in part}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()

    def changes(self, task: TaskStatus, stop: Event | None) -> Iterator[WatchEvent | None] | None:
        """Return the changes of one of the tasks; None if this is another, or at a second call."""
        watch = self._watches.pop((task.namespace, task.id), None)
        return watch.changes(task.id, stop) if watch else None


def watch_task(
    session: Session,
    task: TaskStatus,
    stop: Event | None = None,
    shared: SharedWatches | None = None,
) -> Iterator[WatchedTask | None]:
    """Yield the current state of a task, then each change; None when idle.

    Evidence of failed nodes is kept in the local cache.
    Raises TaskDeleted when the objects of the task are deleted, and TaskStopped when existing nodes
    have finished and others have been missing for a while.
    """
    selector = names.selector({names.TASK_ID: task.id})
    watched = ObjectSelection((task.workload.kind, kinds.POD), task.namespace, selector)
    items = _WatchedObjects(watched.kinds)
    patient = session.patient(stop)
    recorder = EvidenceRecorder(session)
    grace = _Grace()
    resolver = OwnershipResolver(patient)

    def take_snapshot() -> WatchedTask:
        return _snapshot(session, task, resolver.decide(task.namespace, *items.split()))

    may_change = False
    changes = shared.changes(task, stop) if shared else None
    own = watch_kinds(session, watched, stop)
    for change in changes or own:
        if change is None and not may_change:
            yield None
            continue
        if change:
            items.apply(change)
        if not items.complete:
            continue
        snapshot = take_snapshot()
        if snapshot.task.state.ended and not _has_all_pods(snapshot):
            # Kinds are watched separately: a Job may arrive before the failed pod that ended it.
            existing = {
                pod.metadata.uid: pod for pod in find.list_pods(patient, task.namespace, selector)
            }
            items.by_uid |= existing
            snapshot = take_snapshot()
            if any(
                pod.metadata.uid not in existing and not _has_ended(pod) for pod in snapshot.pods
            ):
                continue  # gone already: the watch is about to tell how it ended
        may_change = _may_change(snapshot.task)
        recorder.record_failures(snapshot.task, snapshot.pods)
        yield snapshot
        grace.check(snapshot.task)


class _Grace:
    """The time that missing nodes may take to appear when all existing ones have finished."""

    def __init__(self) -> None:
        self._since = 0.0
        self._existing = -1

    def check(self, task: TaskStatus) -> None:
        """Raise TaskStopped if nodes have been missing for too long: the task cannot complete."""
        existing = len(task.nodes) if task.over and not task.finished else -1
        if existing != self._existing:
            self._existing = existing
            self._since = monotonic()
        elif existing >= 0 and monotonic() >= self._since + _GRACE_SECONDS:
            ranks = sorted(set(range(task.num_nodes)) - {node.index for node in task.nodes})
            lost = waiting.summarize(list(map(task.workload.title, ranks)))
            raise TaskStopped(
                Notice(f"task {task.id} ({task.name}) is {record.note(task)}; not found: {lost}"),
                task.next_step,
            )


def _may_change(task: TaskStatus) -> bool:
    """Whether time alone may tell why nodes are missing, or that their cluster node is lost."""
    return task.incomplete or any(node.reason == TERMINATING for node in task.nodes)


def _has_all_pods(snapshot: WatchedTask) -> bool:
    task = snapshot.task
    finished = task.num_nodes if task.over else sum(node.state.ended for node in task.nodes)
    return sum(map(_has_ended, snapshot.pods)) >= finished + task.restarts


def _has_ended(pod: Pod) -> bool:
    return pod.status.has_ended


def _snapshot(session: Session, task: TaskStatus, owned: Sequence[TaskObjects]) -> WatchedTask:
    """Return a snapshot of the task.

    Raises TaskDeleted when its objects, compared by uid, were deleted.
    """
    uids = set(task.uids.values())
    match = next((it for it in owned if any(item.metadata.uid in uids for item in it.items)), None)
    if not match:
        message = f"its {task.workload.kind.kind}s have been deleted"
        raise TaskDeleted(Notice(f"task {task.id} ({task.name}) was stopped: {message}"))
    (current,) = evidence.fold(session, [match])
    return WatchedTask(current, tuple(match.all_pods))


class Until(StrEnum):
    """What to wait for."""

    FINISHED = "finished"
    RUNNING = "running"  # or finished: a short task may not be seen while it runs
    DELETED = "deleted"

    def reached(self, target: Target) -> bool:
        """Return whether an existing task, pipeline or group has reached the state."""
        if self is Until.RUNNING:
            return target.state is not State.PENDING
        return self is Until.FINISHED and target.state.ended


class Wait(Struct, frozen=True):
    """What to wait for, and for how many seconds. Setting `stop` gives up soon.

    A client that `leads` continues pipelines, stops the remaining nodes of a failed task, and
    replaces pods of cluster nodes that are lost for `node_lost_after`; None leaves them. Which node
    hangs is noted, at the latest when none has printed for as long as `read_silence_limit` says.
    """

    timeout: float | None = None
    until: Until = Until.FINISHED
    leads: bool = False
    node_lost_after: timedelta | None = None
    read_silence_limit: Callable[[], timedelta] = timedelta
    stop: Event = field(default_factory=Event)
    since: float = field(default_factory=monotonic)

    @property
    def expired(self) -> bool:
        return self.timeout is not None and monotonic() >= self.since + self.timeout


_T = TypeVar("_T", TaskStatus, PipelineStatus)


def wait_for_task(
    session: Session,
    task: TaskStatus,
    wait: Wait,
    report: Callable[[TaskStatus], object] = lambda task: None,
    shared: SharedWatches | None = None,
) -> TaskStatus:
    """Wait for a state of a task; `report` gets its status at least twice a second until then."""
    if wait.until.reached(task):
        if task.state is State.FAILED:  # keep its evidence
            pods = find.list_pods(session, task.namespace, names.selector({names.TASK_ID: task.id}))
            counted = {name for node in task.nodes for name in (node.pod, node.previous)}
            uids = set(task.uids.values())
            owned = [
                pod
                for pod in pods
                if ownership.controller(pod) in uids or pod.metadata.name in counted
            ]
            EvidenceRecorder(session).record_failures(task, owned)
        return task

    snapshots = watch_task(session, task, wait.stop, shared)
    changes = (snapshot.task if snapshot else None for snapshot in snapshots)
    return _last(changes, task, wait, report)


def wait_for_pipeline(
    session: Session,
    pipeline: PipelineStatus,
    wait: Wait,
    report: Callable[[PipelineStatus], object],
) -> PipelineStatus:
    """Wait for a state of a pipeline or group, and do nothing about it meanwhile."""
    if wait.until.reached(pipeline):
        return pipeline
    changes = watch_pipeline(session, Scope(pipeline.namespace, None), pipeline)
    return _last(changes, pipeline, wait, report)


def _last(
    changes: Iterator[_T | None], latest: _T, wait: Wait, report: Callable[[_T], object]
) -> _T:
    """Return the first status that has the state. Raises SkyError if the time is over before."""
    try:
        for status in changes:
            latest = status or latest
            if wait.until.reached(latest):
                return latest
            report(latest)
            if wait.expired or wait.stop.is_set():
                break
    except TaskDeleted:
        if wait.until is Until.DELETED:
            return latest
        raise

    word = latest.word if isinstance(latest, PipelineStatus) else "task"
    note = f": {latest.note}" if latest.note else ""
    raise SkyError(
        f"gave up waiting for {word} {latest.id} ({latest.name}), which is {latest.state}{note}",
        f"run `kubectl sky doctor {latest.id}` for the cause",
    )
