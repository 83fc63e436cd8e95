"""Lead a task, pipeline or group one step at a time, as the tasks controller does.

A client that follows leads with the same functions, in pipeline.py and stop.py.
"""

from datetime import datetime

from kubectl_sky.actions import pipeline as pipelines
from kubectl_sky.actions import stop
from kubectl_sky.actions.find import Target, tasks_of
from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age


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
        pipelines.resume(session, target.to_resume)
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
