"""Lead a pipeline: resume tasks one after the other, cancel after a failure.

A task is resumed when its predecessor has succeeded. Later tasks are suspended in the cluster, and
no controller resumes them: a client does so while it follows. Another client can take over at any
time; resuming or cancelling twice is harmless.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from kubectl_sky.actions import group, stop, watch
from kubectl_sky.actions.find import Target
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import NotFound, SkyError, TaskFailed
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.workloads import hold

Follow = Callable[[TaskStatus], TaskStatus]  # returns the task when it has finished
Note = Callable[[str], None]


@dataclass(frozen=True)
class PipelineClient:
    """How a client follows a pipeline, and whether it resumes and cancels tasks."""

    follow: Follow
    note: Note
    leads: bool = True  # resumes and cancels tasks; otherwise another client does


def follow_stages(
    session: Session, pipeline: PipelineStatus, client: PipelineClient
) -> PipelineStatus:
    """Follow a pipeline stage by stage, and return the finished pipeline.

    Raises TaskFailed when a task is stopped meanwhile.
    """
    tasks = list(pipeline.tasks)
    for index in range(pipeline.member.stages):
        task = _task_of_stage(pipeline, index + 1)
        if task.held and client.leads:
            resume(session, task)
        elif task.held:
            client.note(
                f"{pipeline.heading(task)}, is suspended: the client that follows {pipeline.word}"
                f" {pipeline.id}, or `kubectl sky wait {pipeline.id} --continue`, resumes it"
            )
        tasks[index] = client.follow(task)
        if tasks[index].state is State.FAILED:
            if client.leads:
                stop.stop(session, tasks[index + 1 :])
                tasks = tasks[: index + 1]
            break
    return replace(pipeline, tasks=tuple(tasks))


def wait_for_all(
    session: Session,
    targets: Sequence[Target],
    timeout: float | None,
    note: Note,
    leads: bool = False,
) -> list[Target]:
    """Wait for all tasks and pipelines. Raises SkyError after `timeout` seconds."""
    deadline = None if timeout is None else monotonic() + timeout

    def wait_for_task(task: TaskStatus) -> TaskStatus:
        if task.incomplete:
            note(f"{task.name}: {task.note}; {task.next_step}")
        finished = watch.wait_until_finished(session, task, deadline)
        if not finished.over and stop.stop_surviving_nodes(session, finished):
            note(f"{finished.name}: {finished.note}; the other nodes are being stopped")
        return finished

    client = PipelineClient(wait_for_task, note, leads)
    return [
        client.follow(target)
        if isinstance(target, TaskStatus)
        else _wait_for_pipeline(session, target, client, deadline)
        for target in targets
    ]


def _wait_for_pipeline(
    session: Session, pipeline: PipelineStatus, client: PipelineClient, deadline: float | None
) -> PipelineStatus:
    if not pipeline.member.parallel:
        return follow_stages(session, pipeline, client)
    stop_auxiliary = group.AuxiliaryStopper(session, pipeline, client.note, leads=client.leads)
    return group.wait_for_group(session, pipeline, client.follow, stop_auxiliary, deadline)


def _submitted_id(task: TaskStatus) -> str:
    return task.member.id if task.member else task.id


def _task_of_stage(pipeline: PipelineStatus, stage: int) -> TaskStatus:
    for task in pipeline.tasks:
        if pipeline.stage(task) == stage:
            return task
    raise TaskFailed(
        f"{pipeline.word} {pipeline.id} ({pipeline.name}) cannot continue:"
        f" stage {stage} of {pipeline.member.stages} not found",
        f"submit it again with --id {pipeline.id}",
    )


def resume(session: Session, task: TaskStatus) -> None:
    """Resume a suspended task, or add it to its queue.

    Raises SkyError if the task is incomplete, and TaskFailed if it was deleted meanwhile.
    """
    if task.incomplete:
        raise SkyError(
            f"task {task.id} ({task.name}) is {task.note}",
            f"submit it again with --id {_submitted_id(task)}",
        )
    body = hold.released(task.workload, task.member.queueing if task.member else {})
    kind = task.workload.kind
    try:
        for name in dict.fromkeys(node.job for node in task.nodes):
            objects.patch_by_uid(session, kind, task.identity(name), body)
    except NotFound:
        message = f"its {kind.kind}s have been deleted"
        raise TaskFailed(f"task {task.id} ({task.name}) was stopped: {message}") from None
