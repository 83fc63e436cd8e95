"""Follow and show pipelines and groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_sky.cli import output, tasks
from kubectl_sky.cli.logs import reason
from kubectl_sky.cli.printing import Printer
from kubectl_sky.errors import Interrupted, TaskFailed
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.actions.logs import Request
    from kubectl_sky.cluster.session import Session


def follow(
    session: "Session",
    pipeline: PipelineStatus,
    request: "Request",
    printer: Printer,
    decides: bool = True,
) -> int:
    """Follow all tasks in order and return the exit code.

    Ctrl-C does not change the tasks.

    With `decides`, each task is released when the one before it has succeeded. If one fails, the
    remaining tasks are cancelled. Auxiliary tasks of a group are stopped when the others finish.
    """
    follow_tasks = _at_once if pipeline.place.parallel else _in_turn
    try:
        return outcome(follow_tasks(session, pipeline, request, printer, decides))
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; {pipeline.word} {pipeline.id} goes on{_held(pipeline)}",
            f"`kubectl sky wait {pipeline.id} --continue` goes on with it,"
            f" `kubectl sky stop {pipeline.id}` stops it",
        ) from None


def _in_turn(
    session: "Session",
    pipeline: PipelineStatus,
    request: "Request",
    printer: Printer,
    decides: bool,
) -> PipelineStatus:
    from kubectl_sky.actions import logs
    from kubectl_sky.actions.pipeline import Lead, in_turn

    def ended(task: TaskStatus) -> TaskStatus:
        output.note(pipeline.heading(task))
        return logs.follow(session, task, request, printer, output.note)

    return in_turn(session, pipeline, Lead(ended, output.note, decides))


def _at_once(
    session: "Session",
    pipeline: PipelineStatus,
    request: "Request",
    printer: Printer,
    decides: bool,
) -> PipelineStatus:
    from kubectl_sky.actions import group, logs

    group.complete(pipeline)
    for task in pipeline.tasks:
        output.note(pipeline.heading(task))
    ending = group.Ending(session, pipeline, output.note, decides=decides)
    screen = logs.Screen(printer, output.note)
    statuses = logs.follow_all(session, pipeline.tasks, request, screen, ending)
    return group.as_ended(pipeline, statuses)


def _held(pipeline: PipelineStatus) -> str:
    return "" if pipeline.place.parallel else ", its later stages are held"


def outcome(pipeline: PipelineStatus) -> int:
    """Return the exit code of a running or finished pipeline.

    Raises TaskFailed if it failed.
    """
    failed = pipeline.failed
    if not failed:
        return 0
    if pipeline.place.parallel:
        others = [task.name for task in pipeline.tasks if task.state is State.FAILED][1:]
        suffix = f"; so did {', '.join(others)}" if others else ""
        subject = f"task {failed.id} ({failed.name}) of group {pipeline.id} ({pipeline.name})"
        raise TaskFailed(f"{subject} failed: {reason(failed)}{suffix}")
    missing = [str(stage) for stage in pipeline.missing if stage > pipeline.stage(failed)]
    cancelled = f"; cancelled: stage {', '.join(missing)}" if missing else ""
    raise TaskFailed(
        f"{pipeline.word} {pipeline.id} ({pipeline.name}) failed"
        f" at {pipeline.heading(failed)}: {reason(failed)}{cancelled}"
    )


def held(pipeline_id: str, stages: int) -> str:
    """Explain how to continue a pipeline that no client follows."""
    later = "stage 2 is" if stages == 2 else f"stages 2 to {stages} are"
    return (
        f"{later} held: nothing in the cluster releases a stage when the one before it has"
        f" succeeded. `kubectl sky wait {pipeline_id} --continue` does, for as long as it runs;"
        " so does the same submit again, with its id"
    )


def endless(group_id: str, auxiliary: Sequence[str]) -> str:
    """Explain how to stop the auxiliary tasks of a group that no client follows."""
    return (
        f"{', '.join(auxiliary)} will go on when the primary tasks have ended: nothing in the"
        f" cluster ends auxiliary tasks. `kubectl sky wait {group_id} --continue` does, for as long"
        " as it runs; so does the same submit again, with its id"
    )


def details(pipeline: PipelineStatus) -> str:
    """Format a pipeline in full: the common fields, then a row for each task."""
    facts = {
        "Id": pipeline.id,
        "Name": pipeline.name,
        "Status": f"{pipeline.state}{f' — {pipeline.note}' if pipeline.note else ''}",
        "Execution": "parallel" if pipeline.place.parallel else "serial",
        "Namespace": pipeline.namespace,
        "User": pipeline.user,
        "Created": f"{pipeline.created_at} ({tasks.since(pipeline.created_at)} ago)",
        "Updated": f"{pipeline.updated_at} ({tasks.since(pipeline.updated_at)} ago)",
        "Tasks": f"{pipeline.count(State.COMPLETED)} of {pipeline.place.stages} completed",
    }
    head = "\n".join(output.fields(facts))
    rows = {
        pipeline.stage(task): [task.id, task.name, str(task.state), tasks.nodes(task), task.note]
        for task in pipeline.tasks
    } | {stage: ["", "", _absent(pipeline, stage), "", ""] for stage in pipeline.missing}
    table = output.table(
        ["STAGE", "ID", "NAME", "STATUS", "NODES", "NOTE"],
        [[str(stage), *rows[stage]] for stage in sorted(rows)],
    )
    return f"{head}\n\n{table}"


def _absent(pipeline: PipelineStatus, stage: int) -> str:
    """Return the status of a stage whose task does not exist."""
    if stage in pipeline.place.auxiliary:
        return "ended"
    return "cancelled" if pipeline.failed else "gone"
