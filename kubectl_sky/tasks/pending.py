"""Explain why nodes are pending, from Kueue, gang schedulers and events, and report it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import TypeVar

from msgspec.structs import replace

from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotServed, SkyError, Unreachable
from kubectl_sky.observe import queues, waiting
from kubectl_sky.observe.explain import (
    ObjectKey,
    Surroundings,
    explain,
    find_latest,
    lacks_cluster_node,
    may_be_told_by_events,
    may_wait_for_gang,
    pods_by_key,
    read_topologies,
)
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.queues import PendingWorkload
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import WaitingStage
from kubectl_sky.tasks import find, room, watch
from kubectl_sky.tasks.find import Read, Scope, Target
from kubectl_sky.tasks.setups import SetupReader
from kubectl_sky.tasks.ui import UI, WaitingLine
from kubectl_sky.tasks.watch import TaskUpdate
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import Event
from kubectl_sky.words.scheduled_objects import PodGroup
from kubectl_sky.workloads.workload import QUEUED

_FIRST_LOOK = 1.0  # seconds until the first look at why nodes do not start
_LOOK_INTERVAL = 3.0  # seconds between looks at why nodes do not start
_DIAGNOSIS_INTERVAL = 60.0  # seconds until the cause is looked for again
_MAX_PREDECESSORS = 100  # that are looked for at a time
_USUAL_START_SECONDS = 2.0  # seconds that a start may take before a line is written
_REPORT_INTERVAL = 10.0  # seconds between lines while nodes start one after the other

_T = TypeVar("_T", TaskStatus, PipelineStatus)


def explain_pending(session: Session, task: TaskStatus) -> TaskStatus:
    """Return the task with the reason for each pending node, and since when others are in setup."""
    return _explain_task(session, SetupReader(session), task)


def explain_target(session: Session, target: Target) -> Target:
    """Return a task as `explain_pending` does, or a pipeline as `explain_targets` does."""
    if isinstance(target, TaskStatus):
        return explain_pending(session, target)
    return _explain_pipeline(session, SetupReader(session), target)


def explain_targets(
    session: Session, namespace: str | None, targets: Sequence[Target]
) -> list[Target]:
    """Return targets of a namespace (None: all) as in lists, and since when nodes are in setup."""
    tasks = [task for target in targets for task in find.tasks_of(target)]
    explained = iter(_explain_tasks(session, namespace, SetupReader(session), tasks))
    return [
        next(explained)
        if isinstance(target, TaskStatus)
        else replace(target, tasks=tuple(islice(explained, len(target.tasks))))
        for target in targets
    ]


def watch_task(
    session: Session, task: TaskStatus, stop: threading.Event | None = None
) -> Iterator[TaskStatus | None]:
    """Yield a task as `explain_target` does, after changes; None when idle."""
    snapshots = watch.watch_task(session, task, stop)
    changes = (snapshot.task if snapshot else None for snapshot in snapshots)
    return _watch_explained(session, changes, _explain_task)


def watch_pipeline(
    session: Session, scope: Scope, pipeline: PipelineStatus
) -> Iterator[PipelineStatus | None]:
    """Yield a pipeline or group as `explain_target` does, after changes; None when idle."""
    changes = watch.watch_pipeline(session, scope, pipeline)
    return _watch_explained(session, changes, _explain_pipeline)


def _watch_explained(
    session: Session,
    changes: Iterator[_T | None],
    explain_latest: Callable[[Session, SetupReader, _T], _T],
) -> Iterator[_T | None]:
    """Yield what changes with its explanation.

    Nothing tells that a setup begins or ends: the logs of running nodes are read at intervals.
    """
    setups = SetupReader(session)
    latest: _T | None = None
    shown: _T | None = None

    for change in changes:
        latest = change or latest
        looks = latest and setups.awaits(find.tasks_of(latest))
        if latest is None or not (change or looks):
            yield None
            continue

        before = shown
        shown = explain_latest(session, setups, latest)
        yield shown if change or shown != before else None


def _explain_task(session: Session, setups: SetupReader, task: TaskStatus) -> TaskStatus:
    (task,) = setups.explain([task])
    return explain(task, read_surroundings(session, task))


def _explain_pipeline(
    session: Session, setups: SetupReader, pipeline: PipelineStatus
) -> PipelineStatus:
    tasks = _explain_tasks(session, pipeline.namespace, setups, pipeline.tasks)
    return replace(pipeline, tasks=tuple(tasks))


def _explain_tasks(
    session: Session, namespace: str | None, setups: SetupReader, tasks: Sequence[TaskStatus]
) -> list[TaskStatus]:
    tasks = setups.explain(tasks)
    return explain_all(session, namespace, tasks, tasks)


def read_surroundings(session: Session, task: TaskStatus) -> Surroundings:
    """Read why nodes of a task wait.

    Lists warning events only if a pending node has no reason yet, and Kueue Workloads only if a
    node is queued. What may not be read is empty.
    """
    seen = Surroundings(queued=_list_queued(session, task), groups=_list_groups(session, task))
    more = look(session, task.namespace, [explain(task, seen)])
    return replace(more, queued=seen.queued, groups=seen.groups)


def look(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    everything: Sequence[TaskStatus] = (),
) -> Surroundings:
    """Read why tasks of a namespace (None: all) wait, with few requests, and only if some do."""
    seen = _list_gangs(session, namespace, tasks)
    tasks = [explain(task, seen) for task in tasks]
    warnings = _list_warnings(session, namespace) if _lack_reasons(tasks) else {}
    lost, succeeded = _find_ended(session, namespace, tasks, everything or tasks)
    return replace(seen, warnings=warnings, lost=lost, succeeded=succeeded)


def explain_all(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    everything: Sequence[TaskStatus] = (),
) -> list[TaskStatus]:
    """Return listed tasks with the reasons of pending nodes; `everything` was read with them."""
    seen = look(session, namespace, tasks, everything)
    return [explain(task, seen) for task in tasks]


def watch_explained(session: Session, scope: Scope) -> Iterator[TaskUpdate | None]:
    """Yield the tasks of a scope as `explain_all` does, after changes; None when idle."""
    latest: TaskUpdate | None = None
    tasks: list[TaskStatus] = []
    seen = Surroundings()
    next_look = monotonic() + _FIRST_LOOK

    for update in watch.watch_owned(session, scope):
        latest = update or latest
        looks = latest and monotonic() >= next_look and may_wait(latest.tasks)
        if latest and looks:
            next_look = monotonic() + _LOOK_INTERVAL
            with suppress(Unreachable):  # the watch retries an unreachable server
                seen = look(session, scope.namespace, latest.tasks)

        if latest is None or not (update or looks):
            yield None
            continue

        before = tasks
        tasks = [explain(task, seen) for task in latest.tasks]
        yield replace(latest, tasks=tasks) if update or tasks != before else None


def may_wait(tasks: Sequence[TaskStatus]) -> bool:
    """Return whether something is to be read about tasks that wait."""
    waits = any(task.predecessor or may_wait_for_gang(task) for task in tasks)
    return waits or _lack_reasons(tasks)


def _lack_reasons(tasks: Iterable[TaskStatus]) -> bool:
    """Return whether nodes have no reason and do not just wait for their turn in an array."""
    return any(
        may_be_told_by_events(task, node)
        for task in tasks
        if task.state is State.PENDING or not task.workload.independent_nodes
        for node in task.nodes
    )


def _find_ended(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    everything: Sequence[TaskStatus],
) -> tuple[Mapping[ObjectKey, str], frozenset[ObjectKey]]:
    """Return why tasks that others wait for can no longer succeed, and those that have succeeded.

    Those that were not read with the others are looked for by a request for each kind of task.
    """
    waiting = {(task.namespace, task.predecessor_id) for task in tasks if task.predecessor}
    read = list(everything)
    missing = sorted(waiting - _keys(read))
    ids = ",".join(sorted({task_id for _, task_id in missing[:_MAX_PREDECESSORS]}))
    try:
        for label in (names.TASK_ID, names.PIPELINE) if missing else ():
            selector = Read(f"{label} in ({ids})", pods=False)
            read += find.list_tasks(session, Scope(namespace, None), selector)
    except Forbidden:
        return {}, frozenset()
    failed = _keys(task for task in read if task.state is State.FAILED)
    gone = set(missing[:_MAX_PREDECESSORS]) - _keys(read)
    lost = dict.fromkeys(failed, "has failed") | dict.fromkeys(gone, "was deleted")
    succeeded = _list_succeeded(read)
    return {key: lost[key] for key in waiting & lost.keys()}, succeeded & waiting


def _list_succeeded(tasks: Sequence[TaskStatus]) -> frozenset[ObjectKey]:
    """Return what others may name as tasks and whole pipelines that have succeeded."""
    ended = {(it.namespace, it.id): it for it in tasks if it.state is State.COMPLETED}
    stages = Counter((it.namespace, it.member.id) for it in ended.values() if it.member)
    whole = {
        (it.namespace, it.member.id)
        for it in ended.values()
        if it.member and stages[it.namespace, it.member.id] == it.member.stages
    }
    return frozenset(ended.keys() | whole)


def _keys(tasks: Iterable[TaskStatus]) -> set[ObjectKey]:
    """Return what others may name as the tasks, or as their pipelines."""
    return {(task.namespace, name) for task in tasks for name in (task.id, _pipeline(task))}


def _pipeline(task: TaskStatus) -> str:
    return task.member.id if task.member else ""


def _list_warnings(session: Session, namespace: str | None) -> Mapping[ObjectKey, Event]:
    """List the latest warning event about each object; none without permission."""
    try:
        events = CoreManager(session).list_events(namespace, field_selector="type=Warning")
    except Forbidden:
        return {}
    return find_latest(events)


def _list_queued(session: Session, task: TaskStatus) -> Sequence[PendingWorkload]:
    if not any(node.reason == QUEUED for node in task.nodes):
        return ()
    try:
        items = access.list_kueue(session, kinds.QUEUED_WORKLOAD, task.namespace)
    except (Forbidden, NotServed):
        return ()
    return queues.waiting(items)


def _list_groups(session: Session, task: TaskStatus) -> Sequence[PodGroup]:
    """List the PodGroups of Volcano of a task that waits for cluster nodes."""
    kind = task.workload.companion_kind
    if kind is None or not any(map(lacks_cluster_node, task.nodes)):
        return ()
    selector = names.selector({names.TASK_ID: task.id})
    try:
        return objects.list_all(session, kind, task.namespace, label_selector=selector)
    except (Forbidden, NotServed):
        return ()


def _list_gangs(
    session: Session, namespace: str | None, tasks: Sequence[TaskStatus]
) -> Surroundings:
    """Read PodGroups, cluster nodes and pods, if nodes of a task may wait for each other."""
    kind = access.find_gang(session) if any(map(may_wait_for_gang, tasks)) else None
    if kind is None:
        return Surroundings()
    try:
        groups = objects.list_all(session, kind, namespace)
    except (Forbidden, NotServed):
        return Surroundings()

    topologies = read_topologies(groups)
    cluster_nodes = room.list_cluster_nodes(session) if topologies else ()
    running = room.list_running(session, cluster_nodes) or ()
    return Surroundings(
        topologies=topologies, cluster_nodes=cluster_nodes, running=pods_by_key(running)
    )


class StartReporter:
    """Report the stages of a task's start, and the cause when a node cannot start.

    A user interface that is not live gets a line when the stage changes: not for the first seconds
    of a normal start, and then not too often. `suffix` says what follows the start.
    """

    def __init__(
        self, session: Session, ui: UI, limit: float | None = None, suffix: str = ""
    ) -> None:
        self._session = session
        self._ui = ui
        self._limit = limit
        self._suffix = suffix

        self._begun_at = monotonic()
        self._started_at = self._begun_at  # when the time limit began
        self._next_look = self._begun_at + _FIRST_LOOK
        self._quiet_until = self._begun_at + _USUAL_START_SECONDS

        self._seen = Surroundings()
        self._looked_early = False
        self._blocked: frozenset[tuple[str, str]] = frozenset()
        self._next_diagnosis = 0.0
        self._cause = ""
        self._stage = ""
        self._reported: set[str] = set()

    def update(self, task: TaskStatus) -> TaskStatus:
        """Report the current stage; return the task with the reasons of pending nodes.

        Raises SkyError if no node starts within the time limit.
        """
        now = monotonic()
        if any(node.reason == QUEUED for node in task.nodes):
            self._started_at = now  # time in a queue does not count towards the limit

        task = self._explain(task, now)
        self._diagnose(task, now)
        self._report(task, now)
        self._ui.following(task.id, waiting.title(task))

        started = any(node.started or node.restarts for node in task.nodes)
        if self._limit is not None and not started and now > self._started_at + self._limit:
            reason = self._cause or task.note or "no pod yet"
            raise SkyError(
                f"task {task.id} did not start in time: {reason}",
                f"it remains submitted; run `kubectl sky doctor {task.id}` for the cause",
            )
        return task

    def end(self, task: TaskStatus) -> None:
        """Report no stage any more."""
        self._ui.following(task.id, "")
        if self._stage:
            self._stage = ""
            self._ui.waiting(task.id, None)

    def _explain(self, task: TaskStatus, now: float) -> TaskStatus:
        """Explain pending nodes, by what is read at intervals."""
        if not any(node.state is State.PENDING for node in task.nodes):
            return task

        early = not self._looked_early and may_wait_for_gang(task)
        if early or now >= self._next_look:
            self._next_look = now + _LOOK_INTERVAL
            self._looked_early = early or self._looked_early
            with suppress(Unreachable):  # the watch retries an unreachable server
                self._seen = read_surroundings(self._session, task)
        return explain(task, self._seen)

    def _diagnose(self, task: TaskStatus, now: float) -> None:
        """Find the cause when the reasons of blocked nodes change, and once in a while."""
        blocked = frozenset(
            (node.name, node.reason) for node in task.nodes if waiting.is_blocked(node)
        )
        if blocked and (blocked != self._blocked or now >= self._next_diagnosis):
            self._next_diagnosis = now + _DIAGNOSIS_INTERVAL
            from kubectl_sky.tasks import doctor  # noqa: PLC0415 -- most starts do not need it

            with suppress(ClusterError):
                self._cause = doctor.why_pending(self._session, task, brief=self._ui.live)
        self._blocked = blocked
        self._cause = self._cause if blocked else ""

    def _report(self, task: TaskStatus, now: float) -> None:
        stage = self._stage_of(task)
        if stage is None:
            self.end(task)
            return
        quiet = stage.normal and now < self._quiet_until
        if stage.text == self._stage or (not self._ui.live and quiet):
            return
        self._stage = stage.text
        if self._ui.live or stage.text not in self._reported:
            self._reported.add(stage.text)
            self._quiet_until = now + _REPORT_INTERVAL
            self._ui.waiting(task.id, self._waiting(task, stage.text + self._suffix))

    def _stage_of(self, task: TaskStatus) -> WaitingStage | None:
        return waiting.stage(task, self._cause)

    def _waiting(self, task: TaskStatus, text: str) -> WaitingLine:
        """Add the elapsed time and the limit; time in a queue has no limit."""
        if any(node.reason == QUEUED for node in task.nodes):
            return WaitingLine(text, self._begun_at)
        return WaitingLine(text, self._started_at, self._limit)


class WaitReporter(StartReporter):
    """Report the stages of a task's start, and on a live line also where it runs then.

    `since` and `timeout` are those of the whole wait.
    """

    def __init__(self, session: Session, ui: UI, since: float, timeout: float | None) -> None:
        super().__init__(session, ui)
        self._since = since
        self._timeout = timeout

    def update(self, task: TaskStatus) -> TaskStatus:
        """Report the current stage; without reasons if they cannot be read."""
        with suppress(ClusterError):
            return super().update(task)
        return task

    def _stage_of(self, task: TaskStatus) -> WaitingStage | None:
        if task.awaits_files:
            return WaitingStage(f"{task.name}: {task.note}", normal=False)
        running = WaitingStage(waiting.progress(task), normal=True) if self._ui.live else None
        return super()._stage_of(task) or running

    def _waiting(self, task: TaskStatus, text: str) -> WaitingLine:
        return WaitingLine(text, self._since, self._timeout)
