"""`kubectl sky status`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, kept, options, output, pipelines, redraw, tasks
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.observe.pipelines import PipelineStatus


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

    A pipeline or group is shown with all its tasks.
    """
    from kubectl_sky.actions import evidence, why

    session = where.session()
    match = kept.find(session, options.scope(session, where, all_users), task)
    if watch and isinstance(match, TaskStatus):
        _follow(session, match, form)
        return
    if isinstance(match, TaskStatus):
        match = why.explained(session, match)
        output.out(_shown(match, form, evidence.kept(session, match)))
        return
    output.out(_shown(match, form))


def _shown(
    found: "TaskStatus | PipelineStatus", form: str | None, left: "Evidence | None" = None
) -> str:
    if form == "name":
        return tasks.name(found)
    if form:
        return output.data(_as_json(found, left), form)
    if isinstance(found, TaskStatus):
        return tasks.details(found) + (f"\n\n{kept.described(left)}" if left else "")
    return pipelines.details(found)


def _as_json(found: "TaskStatus | PipelineStatus", left: "Evidence | None") -> dict[str, object]:
    value = found.as_json()
    metadata = value.get("metadata")
    if left and isinstance(metadata, dict):
        metadata["evidence"] = [death.as_json() for death in left.deaths]
    return value


def _follow(session: "Session", task: TaskStatus, form: str | None) -> None:
    """Show the task again after each change, until all its nodes have finished."""
    from kubectl_sky.actions import watch, why

    screen = redraw.Screen()
    for snapshot in watch.glimpses(session, task):
        if snapshot:
            screen.show(_shown(why.explained(session, snapshot.task), form))
            if snapshot.task.over:
                return
