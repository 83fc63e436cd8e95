"""Lead a group: end its auxiliary tasks when the primary ones have ended.

All tasks begin by themselves and at once; only the end of auxiliary ones needs a client.
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
Ended = Callable[[TaskStatus], TaskStatus]  # waits for it


class Ending:
    """Ends auxiliary tasks, each after its delay; at once when a primary task has failed.

    Called with how the tasks are, it returns the ids of those that may vanish: this client, or the
    one that leads the group, ends them.
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
        """Look at the tasks, and end those whose time has come."""
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
                self.note(f"{task.name}: ended, for the primary tasks have ended")
                stop.stop(self.session, [task])
        return [task.id for task in spared]


def at_once(
    session: Session, pipeline: PipelineStatus, ended: Ended, end: Ending, deadline: float | None
) -> PipelineStatus:
    """Wait until the tasks of a group have ended, and return it as it ended.

    Raises TaskFailed when a task is gone that has not been ended with the group, SkyError after
    the deadline, which is on the monotonic clock.
    """
    complete(pipeline)
    tasks = [task if pipeline.auxiliary(task) else ended(task) for task in pipeline.tasks]
    while True:
        found = [_again(session, pipeline, task) for task in tasks]
        tasks = [task for task in found if task]
        end(tasks)
        if all(task.state.ended for task in tasks):
            return replace(pipeline, tasks=tuple(tasks))
        if deadline is not None and monotonic() >= deadline:
            raise SkyError(
                f"gave up waiting for group {pipeline.id} ({pipeline.name}): auxiliary tasks go on",
                f"`kubectl sky wait {pipeline.id} --continue` ends them",
            )
        sleep(_LOOK)


def complete(pipeline: PipelineStatus) -> None:
    """Raise TaskFailed when a task is gone that is not ended with the group."""
    gone = [stage for stage in pipeline.missing if stage not in pipeline.place.auxiliary]
    if gone:
        raise TaskFailed(
            f"group {pipeline.id} ({pipeline.name}) is not complete: stage {gone[0]} is gone",
            f"submit it again with --id {pipeline.id}",
        )


def _again(session: Session, pipeline: PipelineStatus, task: TaskStatus) -> TaskStatus | None:
    """An auxiliary task as it is now, None when it has gone; others have ended for good."""
    if task.state.ended or not pipeline.auxiliary(task):
        return task
    return find.again(session, task)


def as_ended(pipeline: PipelineStatus, tasks: Sequence[TaskStatus]) -> PipelineStatus:
    """Return a group as it ended, without the tasks that were ended with it."""
    return replace(pipeline, tasks=tuple(task for task in tasks if task.state.ended))
