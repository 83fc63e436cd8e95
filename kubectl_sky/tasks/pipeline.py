"""Lead a pipeline or a group until all its tasks have finished.

A task of a pipeline is resumed when its predecessor has succeeded. Later tasks are suspended in the
cluster: the tasks controller resumes them, or without one a client does so while it follows.
Another client can take over at any time; resuming or cancelling twice is harmless.

The tasks of a group start at once. Only its auxiliary tasks are stopped when the primary tasks have
finished.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf
from threading import Event
from time import monotonic
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kubectl_sky.cluster import leases, objects, parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    Forbidden,
    Interrupted,
    NotFound,
    NotServed,
    SkyError,
    TaskFailed,
    TaskStopped,
)
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import deletion, find, goodput, stop, watch
from kubectl_sky.tasks.find import Target, tasks_of
from kubectl_sky.tasks.hangs import HangReporter
from kubectl_sky.tasks.pending import WaitReporter
from kubectl_sky.tasks.recovery import Recovery, needs_recovery, recover
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import Until, Wait
from kubectl_sky.words import age, names
from kubectl_sky.words.notice import Notice

_POLL_INTERVAL = 0.5  # seconds

Follow = Callable[[TaskStatus], TaskStatus]  # returns the task when it has finished
Note = Callable[[str], None]
T = TypeVar("T")
R = TypeVar("R")


class PipelineClient(Struct, frozen=True):
    """How a client follows a pipeline until `stop`, and whether it resumes and cancels tasks."""

    follow: Follow
    note: Note
    leads: bool = True  # resumes and cancels tasks while no controller does
    stop: Event = field(default_factory=Event)


def follow_stages(
    session: Session, pipeline: PipelineStatus, client: PipelineClient
) -> PipelineStatus:
    """Follow a pipeline stage by stage, and return the finished pipeline.

    Raises TaskStopped when a task is stopped meanwhile.
    """
    session = session.patient(client.stop)
    tasks = list(pipeline.tasks)
    leads = Leadership(session, pipeline.namespace, client.stop)

    for index in range(pipeline.first_member.stages):
        task = _task_of_stage(pipeline, index + 1)
        if task.suspended and client.leads:
            if not leads.wait_for_controller(partial(_is_resumed, session, task)):
                resume(session, task)
        elif task.suspended:
            client.note(
                f"{pipeline.heading(task)}, is suspended: the client that follows {pipeline.word}"
                f" {pipeline.id}, or `kubectl sky wait {pipeline.id} --continue`, resumes it"
            )

        tasks[index] = client.follow(task)
        if tasks[index].state is State.FAILED:
            if client.leads:
                later = tasks[index + 1 :]
                if not leads.wait_for_controller(partial(_are_deleted, session, later)):
                    stop.stop(session, later)
                tasks = tasks[: index + 1]
            break
    return replace(pipeline, tasks=tuple(tasks))


def _is_resumed(session: Session, task: TaskStatus) -> bool:
    current = find.refetch(session, task)
    return current is None or not current.suspended


def _are_deleted(session: Session, tasks: Sequence[TaskStatus]) -> bool:
    return not any(find.refetch(session, task) for task in tasks)


def _has_stopped_nodes(session: Session, task: TaskStatus) -> bool:
    current = find.refetch(session, task)
    return current is None or not current.surviving_jobs


def wait_for_all(session: Session, targets: Sequence[Target], wait: Wait, ui: UI) -> list[Target]:
    """Wait for all tasks and pipelines at once. Raises SkyError if the time is over before."""
    tasks = [target for target in targets if isinstance(target, TaskStatus)]
    shared = watch.SharedWatches(session, (task for task in tasks if not wait.until.reached(task)))

    def wait_for_task(task: TaskStatus) -> TaskStatus:
        return _wait_for_task(session, task, wait, ui, shared)

    client = PipelineClient(wait_for_task, ui.note, wait.leads, wait.stop)

    def wait_for(target: Target) -> Target:
        start_after(session, target, wait, ui.note)
        if isinstance(target, TaskStatus):
            return wait_for_task(target)
        if wait.until is Until.FINISHED:
            if not target.first_member.parallel:
                return follow_stages(session, target, client)
            stop_auxiliary = AuxiliaryStopper(session, target, ui.note, leads=wait.leads)
            return wait_for_group(session, target, wait_for_task, stop_auxiliary, wait)

        reporter = WaitReporter(session, ui, wait.since, wait.timeout)
        try:
            return watch.wait_for_pipeline(
                session, target, wait, lambda pipeline: reporter.update(pipeline.current)
            )
        finally:
            reporter.end(target.current)

    try:
        with shared:
            finished = _at_once(wait_for, targets)
    finally:
        wait.stop.set()
    if wait.until is Until.DELETED:
        _wait_until_gone(session, finished, wait)
    if wait.leads:
        ended = (task for target in finished for task in tasks_of(target))
        goodput.record_ended(session, ended, lambda: wait.expired)
    return finished


def _wait_until_gone(session: Session, targets: Sequence[Target], wait: Wait) -> None:
    """Wait for the pods of tasks whose objects are deleted. Raises SkyError if time is over."""
    deleted = deletion.of_tasks(task for target in targets for task in tasks_of(target))
    seconds = inf if wait.timeout is None else max(wait.since + wait.timeout - monotonic(), 0)
    if remaining := deletion.wait_until_gone(session, deleted, seconds):
        error = deletion.still_deleting(remaining)
        raise SkyError(f"gave up waiting: {error.what}", error.hint)


def _wait_for_task(
    session: Session, task: TaskStatus, wait: Wait, ui: UI, shared: watch.SharedWatches
) -> TaskStatus:
    if task.incomplete and not task.deletion.since:
        ui.note(f"{task.name}: {task.note}; {task.next_step}")
    reporter = WaitReporter(session, ui, wait.since, wait.timeout)
    patient = session.patient(wait.stop)
    leads = Leadership(patient, task.namespace, wait.stop)
    stop_kept_pods = stop.KeptPodsStopper(patient, leads, ui.note)
    recover_nodes = Recovery(patient, leads, ui.note, wait.node_lost_after)

    report_hang = HangReporter(
        patient, ui.note, wait.read_silence_limit, lambda: wait.leads and leads()
    )

    def update(current: TaskStatus) -> None:
        reporter.update(current)
        report_hang(current)
        if wait.leads:
            stop_kept_pods(current)
            recover_nodes(current)

    try:
        current = watch.wait_for_task(session, task, wait, update, shared)
        while wait.leads and stop_kept_pods(current):
            _pause(wait.stop, _POLL_INTERVAL)
    finally:
        reporter.end(task)
    if wait.until is Until.FINISHED and current.surviving_jobs:
        stopping = wait.leads and _stop_surviving_nodes(session, current, wait.stop)
        hint = f"`kubectl sky wait {current.submitted_id} --continue` stops them"
        others = "are being stopped" if stopping else f"go on; {hint}"
        ui.note(f"{current.name}: {current.note}; the other nodes {others}")
    return current


def _at_once(wait: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Wait for all items, each in a thread; raise the error of the first that has one.

    A failed task has to be noticed, and a pipeline to be led, while others still run.
    """
    if len(items) == 1:
        return [wait(items[0])]
    futures = [parallel.run_future(wait, item, name="wait") for item in items]
    return [future.result() for future in futures]


def _stop_surviving_nodes(session: Session, task: TaskStatus, ended: Event) -> bool:
    """Stop the remaining nodes, or wait until the controller does; return whether they stop."""
    session = session.patient(ended)
    leads = Leadership(session, task.namespace, ended)
    if stop.stop_surviving_nodes(session, task, leads):
        return True
    if not leads.is_with_controller:
        return False
    if leads.wait_for_controller(partial(_has_stopped_nodes, session, task)):
        return True
    return stop.stop_surviving_nodes(session, task)


def _task_of_stage(pipeline: PipelineStatus, stage: int) -> TaskStatus:
    for task in pipeline.tasks:
        if pipeline.stage(task) == stage:
            return task
    raise TaskStopped(
        Notice(
            f"{pipeline.word} {pipeline.id} ({pipeline.name}) cannot continue:"
            f" stage {stage} of {pipeline.first_member.stages} not found"
        ),
        f"submit it again with --id {pipeline.id}",
    )


class AuxiliaryStopper:
    """Stop auxiliary tasks after their delay, or at once if a primary task failed.

    When called with the current tasks, it returns the ids of those that may disappear. Either this
    client or the client that leads the group stops them.
    """

    def __init__(
        self, session: Session, pipeline: PipelineStatus, note: Note, *, leads: bool
    ) -> None:
        self.session = session.patient()
        self.pipeline = pipeline
        self.note = note
        self.leads = leads
        self._client_leads = Leadership(self.session, pipeline.namespace)
        self.primaries_ended_at: float | None = None
        self.stopped: set[str] = set()

    def __call__(self, tasks: Sequence[TaskStatus]) -> Collection[str]:
        """Stop the auxiliary tasks whose delay has passed."""
        current = replace(self.pipeline, tasks=tuple(tasks))
        if not current.primaries_ended:
            return ()
        if self.primaries_ended_at is None:
            self.primaries_ended_at = monotonic()
        remaining = current.remaining_delays(monotonic() - self.primaries_ended_at)
        due = [task for task, delay in remaining if not delay and task.id not in self.stopped]
        for task in due if self.leads and due and self._client_leads() else ():
            self.stopped.add(task.id)
            self.note(f"{task.name}: stopped, because the primary tasks have finished")
            stop.stop(self.session, [task])
        return [task.id for task, _ in remaining]


def wait_for_group(
    session: Session,
    pipeline: PipelineStatus,
    wait_for_task: Follow,
    stop_auxiliary: AuxiliaryStopper,
    wait: Wait,
) -> PipelineStatus:
    """Wait until the tasks of a group have finished, and return the finished group.

    Raises TaskStopped when a task is missing that was not stopped with the group, and SkyError if
    the time is over before.
    """
    check_complete(pipeline)
    session = session.patient(wait.stop)

    def wait_for(task: TaskStatus) -> TaskStatus:
        return task if pipeline.auxiliary(task) else wait_for_task(task)

    tasks = _at_once(wait_for, pipeline.tasks)
    while True:
        current = [  # the others are final; one that was deleted is None
            find.refetch(session, task)
            if pipeline.auxiliary(task) and not task.state.ended
            else task
            for task in tasks
        ]
        tasks = [task for task in current if task]
        stop_auxiliary(tasks)
        if all(task.state.ended for task in tasks):
            return replace(pipeline, tasks=tuple(tasks))
        if wait.expired:
            raise SkyError(
                f"gave up waiting for group {pipeline.id} ({pipeline.name}):"
                " its auxiliary tasks are still running",
                f"`kubectl sky wait {pipeline.id} --continue` stops them",
            )
        _pause(wait.stop, _POLL_INTERVAL)


def _pause(stop: Event, seconds: float) -> None:
    """Sleep. Raises Interrupted as soon as `stop` is set."""
    if stop.wait(seconds):
        raise Interrupted("interrupted")


def check_complete(pipeline: PipelineStatus) -> None:
    """Raise TaskStopped if a task is missing that is not auxiliary."""
    missing = [stage for stage in pipeline.missing if stage not in pipeline.first_member.auxiliary]
    if missing:
        group = f"group {pipeline.id} ({pipeline.name})"
        raise TaskStopped(
            Notice(f"{group} is not complete: stage {missing[0]} not found"),
            f"submit it again with --id {pipeline.id}",
        )


def needs_action(target: Target) -> bool:
    """Return whether to lead now, or when a delay has passed; pods are not required.

    A node without an object may have been deleted, which has to be looked up.
    """
    for task in tasks_of(target):
        if task.predecessor or task.incomplete or task.surviving_jobs:
            return True
        if stop.list_kept_pods(task) or needs_recovery(task):
            return True
    if isinstance(target, TaskStatus):
        return False
    if target.first_member.parallel:
        return _has_finished(target) and bool(target.remaining_delays(0))
    return bool(target.to_resume or target.to_cancel)


class Led(Struct, frozen=True):
    """What was done for a task or pipeline, and in how many seconds the next step is due."""

    steps: Sequence[str] = ()
    seconds: float | None = None


def lead(
    session: Session, target: Target, now: datetime, node_lost_after: timedelta | None = None
) -> Led:
    """Do what is due. Doing it twice is harmless. Raises SkyError."""
    if _list_waiting(target):
        state = lead_after(session, target)
        return Led([f"continued {_title(target)}"] if state is State.COMPLETED else ())
    steps = [
        f"stopped the other nodes of {_title(task)}"
        for task in tasks_of(target)
        if task.surviving_jobs and stop.stop_surviving_nodes(session, task)
    ]

    delays = list[float | None]()
    if isinstance(target, PipelineStatus):
        has_acted, delay = _lead_pipeline(session, target, now)
        steps += [f"continued {_title(target)}"] if has_acted else ()
        delays.append(delay)

    for task in tasks_of(target):
        if stop.stop_kept_pods(session, task):
            delays.append(stop.KEPT_SECONDS)
        if needs_recovery(task):
            texts, delay = recover(session, task, node_lost_after)
            steps += [f"{_title(task)}: {text}" for text in texts]
            delays.append(delay)
    return Led(steps, min(filter(None, delays), default=None))


def _title(target: Target) -> str:
    word = "task" if isinstance(target, TaskStatus) else target.word
    return f"{word}/{target.id} ({target.name})"


def _lead_pipeline(
    session: Session, target: PipelineStatus, now: datetime
) -> tuple[bool, float | None]:
    """Return whether something was done, and in how many seconds the next step is due."""
    if not target.first_member.parallel:
        if target.to_cancel:
            stop.stop(session, target.to_cancel)
        elif target.to_resume:
            resume(session, target.to_resume)
        return bool(target.to_cancel or target.to_resume), None
    if not _has_finished(target):
        return False, None
    ended_at = age.parse(target.primaries_ended_at)
    delays = target.remaining_delays((now - (ended_at or now)).total_seconds())
    due = [task for task, delay in delays if not delay]
    if due:
        stop.stop(session, due)
    return bool(due), min((delay for _, delay in delays if delay), default=None)


def _has_finished(group: PipelineStatus) -> bool:
    return group.complete and group.primaries_ended


CONTROLLER = "tasks"

_CHECK_SECONDS = 5.0
_POLL_SECONDS = 1.0


def controller_leads(session: Session, namespace: str) -> bool:
    """Return whether a live controller leads the tasks of a namespace. Raises ClusterError."""
    for place, leads_all in ((namespace, False), (names.CONTROLLERS_NAMESPACE, True)):
        with suppress(Forbidden, NotServed):
            lease = leases.get(session, place, names.controller_lease(CONTROLLER, leads_all))
            if lease is not None and lease.live(session.now()):
                return True
    return False


class Leadership:
    """Whether this client leads the tasks of a namespace: while no controller lives."""

    def __init__(self, session: Session, namespace: str, stop: Event | None = None) -> None:
        self._session = session
        self._namespace = namespace
        self._stop = stop or Event()
        self._checked_at = 0.0
        self.is_with_controller = False  # when asked last

    def __call__(self) -> bool:
        """Return whether the client leads; asks the cluster every few seconds."""
        if not self._checked_at or monotonic() >= self._checked_at + _CHECK_SECONDS:
            self.is_with_controller = controller_leads(self._session, self._namespace)
            self._checked_at = monotonic()
        return not self.is_with_controller

    def wait_for_controller(self, has_acted: Callable[[], bool]) -> bool:
        """Wait until the controller has acted; return False as soon as the client leads."""
        while not self():
            if has_acted():
                return True
            _pause(self._stop, _POLL_SECONDS)
        return False


def _list_waiting(target: Target) -> list[TaskStatus]:
    return [task for task in tasks_of(target) if task.predecessor]


def lead_after(session: Session, target: Target) -> State | None:
    """Resume what waits for a task that has succeeded; delete it if that has failed.

    Return the state of that task; None if it was deleted, which changes nothing.
    """
    waiting = _list_waiting(target)
    state = _state_of_predecessor(session, waiting[0])
    if state is State.COMPLETED:
        for task in waiting:
            resume(session, task)
    elif state is State.FAILED:
        stop.stop(session, tasks_of(target))
    return state


def start_after(session: Session, target: Target, wait: Wait, note: Note) -> None:
    """Wait until the task that a target waits for has finished, and act on it if the client leads.

    Raises TaskStopped if it has not succeeded.
    """
    waiting = _list_waiting(target)
    if not waiting or wait.until is Until.DELETED:
        return

    session = session.patient(wait.stop)
    name = waiting[0].predecessor
    predecessor = find.find_predecessor(session, waiting[0])
    if predecessor and not predecessor.state.ended:
        note(f"{target.name}: starts when {name} has succeeded")
        try:
            start_after(session, predecessor, wait, note)  # of a chain, from its beginning
        except TaskStopped as stopped:
            note(stopped.what)
        with suppress(TaskFailed):  # it was stopped
            if isinstance(predecessor, TaskStatus):
                watch.wait_for_task(session, predecessor, wait)
            else:
                watch.wait_for_pipeline(session, predecessor, wait, lambda pipeline: None)

    if wait.leads:
        state = lead_after(session, target)
    else:
        state = _state_of_predecessor(session, waiting[0])
    if state is State.COMPLETED:
        _note_due(session, waiting[0], wait, note)
        return
    if state is State.FAILED and wait.leads:
        raise TaskStopped(Notice(f"{target.name} ({target.id}) was cancelled: {name} has failed"))
    reason = "has failed" if state is State.FAILED else "was deleted"
    raise TaskStopped(
        Notice(f"{target.name} ({target.id}) does not start: {name} {reason}"),
        f"run `kubectl sky stop {target.id}`, and submit it again",
    )


def _note_due(session: Session, task: TaskStatus, wait: Wait, note: Note) -> None:
    """Note who resumes a task after its predecessor has succeeded, unless it is resumed."""
    current = None if wait.leads else find.refetch(session, task)
    if current and current.suspended and not controller_leads(session, task.namespace):
        note(
            f"{task.name} is suspended, although {task.predecessor} has succeeded: the client that"
            f" follows it, or `kubectl sky wait {task.submitted_id} --continue`, resumes it"
        )


def _state_of_predecessor(session: Session, task: TaskStatus) -> State | None:
    predecessor = find.find_predecessor(session, task)
    return predecessor.state if predecessor else None


def resume(session: Session, task: TaskStatus) -> None:
    """Resume a suspended task, or add it to its queue.

    Raises SkyError if the task is incomplete, and TaskStopped if it was deleted meanwhile.
    """
    if task.incomplete:
        raise SkyError(
            f"task {task.id} ({task.name}) is {task.note}",
            f"submit it again with --id {task.submitted_id}",
        )
    body = task.workload.resuming(task.queueing)
    kind = task.workload.kind
    try:
        for name in dict.fromkeys(node.job for node in task.nodes):
            objects.patch_by_uid(session, kind, task.identity(name), body)
    except NotFound:
        message = f"its {kind.kind}s have been deleted"
        notice = Notice(f"task {task.id} ({task.name}) was stopped: {message}")
        raise TaskStopped(notice) from None
