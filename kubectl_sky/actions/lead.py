"""Lead tasks: resume stages, stop auxiliary tasks and the surviving nodes of failed tasks.

The tasks controller leads where one lives, which a Lease shows; otherwise the client that follows.
Without permission to read the Lease, no controller is assumed.
"""

from collections.abc import Callable
from datetime import datetime
from time import monotonic, sleep

from kubectl_sky.actions import stop
from kubectl_sky.actions.find import Target, tasks_of
from kubectl_sky.cluster import leases, objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound, NotServed, SkyError, TaskFailed
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age, names


def needs_action(target: Target) -> bool:
    """Return whether to lead now, or when a delay has passed; from workloads without pods.

    A node without an object may have been deleted, which has to be looked up.
    """
    if any(task.incomplete or task.surviving_jobs for task in tasks_of(target)):
        return True
    if isinstance(target, TaskStatus):
        return False
    if target.first_member.parallel:
        return _has_finished(target) and bool(target.remaining_delays(0))
    return bool(target.to_resume or target.to_cancel)


def lead(session: Session, target: Target, now: datetime) -> float | None:
    """Do what is due; return in how many seconds the next step is due, or None.

    Doing it twice is harmless. Raises SkyError.
    """
    for task in tasks_of(target):
        stop.stop_surviving_nodes(session, task)
    if isinstance(target, TaskStatus):
        return None
    if target.first_member.parallel:
        return _stop_auxiliary(session, target, now) if _has_finished(target) else None
    if target.to_cancel:
        stop.stop(session, target.to_cancel)
    elif target.to_resume:
        resume(session, target.to_resume)
    return None


def _has_finished(group: PipelineStatus) -> bool:
    return group.complete and group.primaries_ended


def _stop_auxiliary(session: Session, group: PipelineStatus, now: datetime) -> float | None:
    elapsed = (now - age.parse(group.primaries_ended_at)).total_seconds()
    delays = group.remaining_delays(elapsed)
    due = [task for task, delay in delays if not delay]
    if due:
        stop.stop(session, due)
    return min((delay for _, delay in delays if delay), default=None)


CONTROLLER = "tasks"

_CHECK_SECONDS = 5.0
_POLL_SECONDS = 1.0


def controller_leads(session: Session, namespace: str) -> bool:
    """Return whether a live controller leads the tasks of a namespace. Raises ClusterError."""
    places = ((namespace, False), (names.CONTROLLERS_NAMESPACE, True))
    return any(_is_live(session, *place) for place in places)


def _is_live(session: Session, namespace: str, all_namespaces: bool) -> bool:
    try:
        lease = leases.get(session, namespace, names.controller_lease(CONTROLLER, all_namespaces))
    except (Forbidden, NotServed):
        return False
    return lease is not None and lease.live(session.now())


class Leadership:
    """Whether this client leads the tasks of a namespace: while no controller lives."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace
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
            sleep(_POLL_SECONDS)
        return False


def resume(session: Session, task: TaskStatus) -> None:
    """Resume a suspended task, or add it to its queue.

    Raises SkyError if the task is incomplete, and TaskFailed if it was deleted meanwhile.
    """
    if task.incomplete:
        raise SkyError(
            f"task {task.id} ({task.name}) is {task.note}",
            f"submit it again with --id {submitted_id(task)}",
        )
    body = task.workload.resuming(task.member.queueing if task.member else {})
    kind = task.workload.kind
    try:
        for name in dict.fromkeys(node.job for node in task.nodes):
            objects.patch_by_uid(session, kind, task.identity(name), body)
    except NotFound:
        message = f"its {kind.kind}s have been deleted"
        raise TaskFailed(f"task {task.id} ({task.name}) was stopped: {message}") from None


def submitted_id(task: TaskStatus) -> str:
    """Return the id for submit and wait: that of the pipeline or group, if there is one."""
    return task.member.id if task.member else task.id
