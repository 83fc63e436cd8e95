"""`kubectl sky status`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import options, output, pipelines, redraw, tasks
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.pipelines import PipelineStatus


@click.command("status")
@click.argument("task")
@options.where_all
@options.all_users
@options.output("json", "yaml", "name")
@click.option("-w", "--watch", is_flag=True, help="Go on showing what changes, until it has ended.")
def command(
    task: str, where: options.Where, all_users: bool, form: str | None, watch: bool
) -> None:
    """Show TASK (an id, the beginning of one, or a name) and each of its nodes.

    Of a pipeline or group it shows each of the tasks.
    """
    from kubectl_sky.actions import find, why

    session = where.session()
    found = find.one(session, options.scope(session, where, all_users), task)
    if watch and isinstance(found, TaskStatus):
        _follow(session, found, form)
        return
    if isinstance(found, TaskStatus):
        found = why.explained(session, found)
    output.out(_shown(found, form))


def _shown(found: "TaskStatus | PipelineStatus", form: str | None) -> str:
    if form == "name":
        return tasks.name(found)
    if form:
        return output.data(found.as_json(), form)
    return tasks.details(found) if isinstance(found, TaskStatus) else pipelines.details(found)


def _follow(session: "Session", task: TaskStatus, form: str | None) -> None:
    """Show the task again at each change, until all its nodes have ended."""
    from kubectl_sky.actions import watch, why

    screen = redraw.Screen()
    for glimpse in watch.glimpses(session, task):
        if glimpse:
            screen.show(_shown(why.explained(session, glimpse.task), form))
            if glimpse.task.over:
                return
