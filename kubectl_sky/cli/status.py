"""`kubectl sky status`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output, pipelines, redraw, tasks
from kubectl_sky.errors import UserError
from kubectl_sky.observe.escapes import harmless
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.observe.pipelines import PipelineStatus

_LINES = 10  # of those that are kept
_OTHERS = 5  # nodes that died after the first


@commands.command(
    "status",
    examples=[
        "status train",
        "status train --watch",
        "status train -o jsonpath={.metadata.job_status}",
    ],
)
@click.argument("task")
@options.where_all
@options.all_users
@options.output("json", "yaml", "name")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until the task has finished.")
def command(
    task: str, where: options.Where, all_users: bool, form: str | None, watch: bool
) -> None:
    """Show TASK (an id, a prefix of an id, or a name) and each of its nodes.

    A pipeline or group is shown with all of its tasks.
    """
    from kubectl_sky.actions import evidence, find, why

    session = where.session()
    scope = options.scope(session, where, all_users)
    try:
        found = find.one(session, scope, task)
    except UserError:
        left = evidence.remembered(session, scope.namespace, task)
        if left:
            output.note(f"task {left.task_id} ({left.name}) has gone\n{_left(left)}")
        raise
    if watch and isinstance(found, TaskStatus):
        _follow(session, found, form)
        return
    if isinstance(found, TaskStatus):
        found = why.explained(session, found)
        output.out(_shown(found, form, evidence.kept(session, found)))
        return
    output.out(_shown(found, form))


def _shown(
    found: "TaskStatus | PipelineStatus", form: str | None, left: "Evidence | None" = None
) -> str:
    if form == "name":
        return tasks.name(found)
    if form:
        return output.data(_as_json(found, left), form)
    if isinstance(found, TaskStatus):
        return tasks.details(found) + (f"\n\n{_left(left)}" if left else "")
    return pipelines.details(found)


def _as_json(found: "TaskStatus | PipelineStatus", left: "Evidence | None") -> dict[str, object]:
    value = found.as_json()
    metadata = value.get("metadata")
    if left and isinstance(metadata, dict):
        metadata["evidence"] = [death.as_json() for death in left.deaths]
    return value


def _left(left: "Evidence") -> str:
    """What is kept of pods that have gone: how they ended, the first one's last lines."""
    first, *others = left.deaths
    lines = [harmless(line.encode(errors="replace")).decode() for line in first.lines[-_LINES:]]
    when = f" at {first.ended_at}" if first.ended_at else ""
    head = f"first failed {first.name}: {first.end}{when}, pod {first.pod}"
    more = [f"then {one.name}: {one.end}, pod {one.pod}" for one in others[:_OTHERS]]
    if others[_OTHERS:]:
        more.append(f"and {len(others) - _OTHERS} more")
    if lines:
        head += "; its last lines:"
    return "\n".join(["Kept on this machine:", head, *(f"  {line}" for line in lines), *more])


def _follow(session: "Session", task: TaskStatus, form: str | None) -> None:
    """Show the task again at each change, until all its nodes have ended."""
    from kubectl_sky.actions import watch, why

    screen = redraw.Screen()
    for glimpse in watch.glimpses(session, task):
        if glimpse:
            screen.show(_shown(why.explained(session, glimpse.task), form))
            if glimpse.task.over:
                return
