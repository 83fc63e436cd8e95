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

_LOOK = 0.5  # seconds

Note = Callable[[str], None]
Ended = Callable[[TaskStatus], TaskStatus]  # waits for the task to finish


class Ending:
    """Stop auxiliary tasks after their delay, or at once if a primary task failed.

    When called with the current tasks, it returns the ids of those that may disappear. Either this
    client or the client that leads the group stops them.
    """

    def __init__(
        self, session: Session, pipeline: PipelineStatus, note: Note, *, decides: bool
    ) -> None:
        self.session = session
        self.pipeline = pipeline
        self.note = note
        self.decides = decides
        self.since: float | None = None
        self.stopped: set[str] = set()

    def __call__(self, tasks: Sequence[TaskStatus]) -> Collection[str]:
        """Stop the auxiliary tasks whose delay has passed."""
        now = replace(self.pipeline, tasks=tuple(tasks))
        if not now.primaries_ended:
            return ()
        if self.since is None:
            self.since = monotonic()
        spared = [task for task in tasks if now.auxiliary(task) and not task.over]
        for task in spared if self.decides else ():
            delay = task.member.delay if task.member and not now.failed_primary else 0
            if task.id not in self.stopped and monotonic() >= self.since + delay:
                self.stopped.add(task.id)
                self.note(f"{task.name}: stopped, because the primary tasks have finished")
                stop.stop(self.session, [task])
        return [task.id for task in spared]


def at_once(
    session: Session, pipeline: PipelineStatus, ended: Ended, end: Ending, deadline: float | None
) -> PipelineStatus:
    """Wait until the tasks of a group have finished, and return the finished group.

    Raises TaskFailed when a task is missing that was not stopped with the group, and SkyError after
    the deadline, which is on the monotonic clock.
    """
    complete(pipeline)
    tasks = [task if pipeline.auxiliary(task) else ended(task) for task in pipeline.tasks]
    while True:
        refreshed = [_again(session, pipeline, task) for task in tasks]
        tasks = [task for task in refreshed if task]
        end(tasks)
        if all(task.state.ended for task in tasks):
            return replace(pipeline, tasks=tuple(tasks))
        if deadline is not None and monotonic() >= deadline:
            raise SkyError(
                f"gave up waiting for group {pipeline.id} ({pipeline.name}):"
                " its auxiliary tasks are still running",
                f"`kubectl sky wait {pipeline.id} --continue` stops them",
            )
        sleep(_LOOK)


def complete(pipeline: PipelineStatus) -> None:
    """Raise TaskFailed if a task is missing that is not auxiliary."""
    missing = [stage for stage in pipeline.missing if stage not in pipeline.place.auxiliary]
    if missing:
        raise TaskFailed(
            f"group {pipeline.id} ({pipeline.name}) is not complete: stage {missing[0]} is gone",
            f"submit it again with --id {pipeline.id}",
        )


def _again(session: Session, pipeline: PipelineStatus, task: TaskStatus) -> TaskStatus | None:
    """Refetch a running auxiliary task; None if it was deleted.

    Other tasks are final and returned as they are.
    """
    if task.state.ended or not pipeline.auxiliary(task):
        return task
    return find.again(session, task)


def as_ended(pipeline: PipelineStatus, tasks: Sequence[TaskStatus]) -> PipelineStatus:
    """Return a finished group without the auxiliary tasks that were stopped."""
    return replace(pipeline, tasks=tuple(task for task in tasks if task.state.ended))
