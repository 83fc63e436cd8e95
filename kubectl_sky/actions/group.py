"""Lead a group: stop its auxiliary tasks when the primary tasks have finished.

All tasks start at once without a client. Only stopping the auxiliary tasks needs one.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from time import monotonic, sleep

from kubectl_sky.actions import find, stop
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError, TaskFailed
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus

_POLL_INTERVAL = 0.5  # seconds

Note = Callable[[str], None]
WaitForTask = Callable[[TaskStatus], TaskStatus]  # returns it when it has finished


class AuxiliaryStopper:
    """Stop auxiliary tasks after their delay, or at once if a primary task failed.

    When called with the current tasks, it returns the ids of those that may disappear. Either this
    client or the client that leads the group stops them.
    """

    def __init__(
        self, session: Session, pipeline: PipelineStatus, note: Note, *, leads: bool
    ) -> None:
        self.session = session
        self.pipeline = pipeline
        self.note = note
        self.leads = leads
        self.primaries_ended_at: float | None = None
        self.stopped: set[str] = set()

    def __call__(self, tasks: Sequence[TaskStatus]) -> Collection[str]:
        """Stop the auxiliary tasks whose delay has passed."""
        current = replace(self.pipeline, tasks=tuple(tasks))
        if not current.primaries_ended:
            return ()
        if self.primaries_ended_at is None:
            self.primaries_ended_at = monotonic()
        remaining = [task for task in tasks if current.auxiliary(task) and not task.over]
        for task in remaining if self.leads else ():
            delay = task.member.delay if task.member and not current.failed_primary else 0
            if task.id not in self.stopped and monotonic() >= self.primaries_ended_at + delay:
                self.stopped.add(task.id)
                self.note(f"{task.name}: stopped, because the primary tasks have finished")
                stop.stop(self.session, [task])
        return [task.id for task in remaining]


def wait_for_group(
    session: Session,
    pipeline: PipelineStatus,
    wait_for_task: WaitForTask,
    stop_auxiliary: AuxiliaryStopper,
    deadline: float | None,
) -> PipelineStatus:
    """Wait until the tasks of a group have finished, and return the finished group.

    Raises TaskFailed when a task is missing that was not stopped with the group, and SkyError after
    the deadline, which is on the monotonic clock.
    """
    check_complete(pipeline)
    tasks = [task if pipeline.auxiliary(task) else wait_for_task(task) for task in pipeline.tasks]
    while True:
        refreshed = [_refetch_auxiliary(session, pipeline, task) for task in tasks]
        tasks = [task for task in refreshed if task]
        stop_auxiliary(tasks)
        if all(task.state.ended for task in tasks):
            return replace(pipeline, tasks=tuple(tasks))
        if deadline is not None and monotonic() >= deadline:
            raise SkyError(
                f"gave up waiting for group {pipeline.id} ({pipeline.name}):"
                " its auxiliary tasks are still running",
                f"`kubectl sky wait {pipeline.id} --continue` stops them",
            )
        sleep(_POLL_INTERVAL)


def check_complete(pipeline: PipelineStatus) -> None:
    """Raise TaskFailed if a task is missing that is not auxiliary."""
    missing = [stage for stage in pipeline.missing if stage not in pipeline.member.auxiliary]
    if missing:
        raise TaskFailed(
            f"group {pipeline.id} ({pipeline.name}) is not complete: stage {missing[0]} not found",
            f"submit it again with --id {pipeline.id}",
        )


def _refetch_auxiliary(
    session: Session, pipeline: PipelineStatus, task: TaskStatus
) -> TaskStatus | None:
    """Refetch a running auxiliary task; None if it was deleted.

    Other tasks are final and returned as they are.
    """
    if task.state.ended or not pipeline.auxiliary(task):
        return task
    return find.refetch(session, task)


def without_stopped(pipeline: PipelineStatus, tasks: Sequence[TaskStatus]) -> PipelineStatus:
    """Return a finished group without the auxiliary tasks that were stopped."""
    return replace(pipeline, tasks=tuple(task for task in tasks if task.state.ended))
