"""Watch tasks: yield their status after each change."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from time import monotonic

from kubectl_sky import kinds, names
from kubectl_sky.actions import listing
from kubectl_sky.actions.evidence import Keeper
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.backoff import retry_unreachable
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.watch import Change, Seen, watch_kinds
from kubectl_sky.errors import SkyError, TaskFailed
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.nodes import Object, State
from kubectl_sky.observe.ownership import Key, Missing, Ownership
from kubectl_sky.observe.status import TaskStatus

_SETTLE = 2.0  # seconds until missing nodes are looked into
_PAUSE = 0.2  # minimum seconds between updates: among many tasks, something always changes


class _Items:
    """The objects that a watch has reported."""

    def __init__(self, kinds_: int) -> None:
        self.by_uid: dict[str, Json] = {}
        self._unsynced = kinds_

    @property
    def complete(self) -> bool:
        """Whether the initial list of every kind is complete."""
        return self._unsynced <= 0

    def take(self, change: Seen) -> None:
        """Apply one change."""
        if change.type is Change.SYNCED:
            self._unsynced -= 1
        elif change.type is Change.DELETED:
            self.by_uid.pop(change.object["metadata"]["uid"], None)
        else:
            self.by_uid[change.object["metadata"]["uid"]] = change.object

    def split(self) -> tuple[list[Json], list[Json]]:
        """Return the workloads and the pods."""
        items = list(self.by_uid.values())
        pods = [item for item in items if item["kind"] == kinds.POD.kind]
        return [item for item in items if item["kind"] != kinds.POD.kind], pods


class _Makers:
    """What the watched objects do not show: Jobs between pods and workloads, missing nodes.

    Each new owner of a pod is looked up once. `known` holds the uids of the user's objects.
    """

    def __init__(self, session: Session, known: Collection[str] = ()) -> None:
        self._session = session
        self._known = known
        self._jobs: dict[str, Json] = {}
        self._asked: set[str] = set()
        self._lacking_since: dict[Key, float] = {}
        self._missing: dict[Key, Missing] = {}
        self._asked_at = 0.0

    def decide(
        self, namespace: str | None, items: Sequence[Json], pods: Sequence[Json]
    ) -> Ownership:
        """Decide which objects and pods belong to which task."""
        new_pods = [pod for pod in pods if ownership.controller(pod) not in self._asked]
        for job in listing.makers(self._session, namespace, items, new_pods):
            self._jobs[job["metadata"]["uid"]] = job
        self._asked.update(map(ownership.controller, new_pods))
        owned = ownership.decide(items, pods, self._jobs.values(), self._known)
        return self._explained(namespace, owned)

    def _explained(self, namespace: str | None, owned: Ownership) -> Ownership:
        """Find out why tasks have lacked nodes for a while.

        Objects of one task are neither created nor deleted at exactly the same time.
        """
        now = monotonic()
        lacking = {task.key: task for task in owned.tasks if task.lacks}
        self._lacking_since = {key: self._lacking_since.get(key, now) for key in lacking}
        due = [task for key, task in lacking.items() if now >= self._lacking_since[key] + _SETTLE]
        if due and now >= self._asked_at + _SETTLE:
            self._asked_at = now
            answer = listing.explained(self._session, namespace, replace(owned, tasks=tuple(due)))
            self._missing |= {task.key: task.missing for task in answer.tasks}
        self._missing = {key: why for key, why in self._missing.items() if key in lacking}
        return replace(
            owned,
            tasks=tuple(
                replace(task, missing=self._missing.get(task.key, task.missing))
                for task in owned.tasks
            ),
        )


def tasks(session: Session, scope: Scope) -> Iterator[list[TaskStatus] | None]:
    """Yield the tasks of a scope, newest first, after changes; None when idle."""
    watched, makers = (*listing.served(session), kinds.POD), _Makers(session)
    selector = ",".join(f"{k}={v}" for k, v in ({names.TASK: "true"} | scope.labels).items())
    items, yielded_at, changed = _Items(len(watched)), 0.0, False
    for change in watch_kinds(session, watched, scope.namespace, selector):
        if change:
            items.take(change)
            changed = True
        if changed and items.complete and monotonic() > yielded_at + _PAUSE:
            workloads, pods = map(scope.own, items.split())
            yielded_at = monotonic()
            statuses = status.folded(makers.decide(scope.namespace, workloads, pods)).tasks
            changed = any(task.incomplete for task in statuses)  # may be explained later
            yield statuses
        elif not change:
            yield None


@dataclass(frozen=True)
class Glimpse:
    """A snapshot of a task and its pods."""

    task: TaskStatus
    pods: tuple[Object, ...]


def glimpses(
    session: Session, seen: TaskStatus, stop: Event | None = None
) -> Iterator[Glimpse | None]:
    """Yield the current state of a task, then each change; None when idle.

    Evidence of failed nodes is kept in the local cache.
    Raises TaskFailed when the objects of the task are deleted: a user has stopped it.
    """
    watched = (seen.workload.kind, kinds.POD)
    items = _Items(len(watched))
    selector = names.selector(task_id=seen.id)
    keeper, makers = Keeper(session), _Makers(session, frozenset(seen.uids.values()))

    def glimpsed() -> Glimpse:
        decide = partial(makers.decide, seen.namespace, *items.split())
        return _glimpse(seen, retry_unreachable(decide, stop))

    incomplete = False
    for change in watch_kinds(session, watched, seen.namespace, selector, stop=stop):
        if change is None and not incomplete:
            yield None
            continue
        if change:
            items.take(change)
        if not items.complete:
            continue
        glimpse = glimpsed()
        if glimpse.task.over and not _settled(glimpse):
            # Kinds are watched separately: a Job may arrive before the failed pod that ended it.
            pods = retry_unreachable(partial(_pods, session, seen.namespace, selector), stop)
            items.by_uid |= {pod["metadata"]["uid"]: pod for pod in pods}
            glimpse = glimpsed()
        incomplete = glimpse.task.incomplete
        keeper.see(glimpse.task, glimpse.pods)
        yield glimpse


def _pods(session: Session, namespace: str, selector: str) -> list[Json]:
    return objects.list_all(session, kinds.POD, namespace, label_selector=selector)


def _settled(glimpse: Glimpse) -> bool:
    phases = [pod.get("status", {}).get("phase") for pod in glimpse.pods]
    ended = [phase for phase in phases if phase in ("Succeeded", "Failed")]
    return len(ended) >= glimpse.task.num_nodes + glimpse.task.restarts


def _glimpse(seen: TaskStatus, owned: Ownership) -> Glimpse:
    """Return a snapshot of the task.

    Raises TaskFailed when its objects, compared by uid, were deleted.
    """
    uids = set(seen.uids.values())
    tasks = [task for task in owned.tasks if uids & {_uid(item) for item in task.items}]
    if not tasks:
        message = f"its {seen.workload.kind.kind}s have been deleted"
        raise TaskFailed(f"task {seen.id} ({seen.name}) was stopped: {message}")
    return Glimpse(status.of(tasks[0]), tuple(tasks[0].all_pods))


def _uid(item: Object) -> str:
    return str(item["metadata"]["uid"])


def _keep(session: Session, task: TaskStatus) -> None:
    """Keep the evidence of a task that had failed before it was watched."""
    if task.state is State.FAILED:
        selector = names.selector(task_id=task.id)
        pods = _pods(session, task.namespace, selector)
        counted = {name for node in task.nodes for name in (node.pod, node.previous)}
        uids = set(task.uids.values())
        owned = [
            pod
            for pod in pods
            if ownership.controller(pod) in uids or pod["metadata"]["name"] in counted
        ]
        Keeper(session).see(task, owned)


def ended(session: Session, seen: TaskStatus, end: float | None) -> TaskStatus:
    """Wait until a task has succeeded or failed; `end` is on the monotonic clock."""
    if seen.state.ended:
        _keep(session, seen)
        return seen
    latest = seen
    for glimpse in glimpses(session, seen):
        if glimpse:
            latest = glimpse.task
        if latest.state.ended:
            return latest
        if end is not None and monotonic() >= end:
            break
    note = f": {latest.note}" if latest.note else ""
    raise SkyError(
        f"gave up waiting for task {seen.id} ({seen.name}), which is {latest.state}{note}",
        f"see `kubectl sky status {seen.id}`",
    )
