"""`kubectl sky status`."""

import click

from kubectl_sky.cli import options, output, pipelines, tasks
from kubectl_sky.observe.status import TaskStatus


@click.command("status")
@click.argument("task")
@options.where_all
@options.all_users
@options.output("json", "yaml", "name")
def command(task: str, where: options.Where, all_users: bool, form: str | None) -> None:
    """Show TASK (an id, the beginning of one, or a name) and each of its nodes.

    Of a pipeline or group it shows each of the tasks.
    """
    from kubectl_sky.actions import find, why

    session = where.session()
    found = find.one(session, options.scope(session, where, all_users), task)
    if isinstance(found, TaskStatus):
        found = why.explained(session, found)
    if form == "name":
        output.out(tasks.name(found))
    elif form:
        output.out(output.data(found.as_json(), form))
    elif isinstance(found, TaskStatus):
        output.out(tasks.details(found))
    else:
        output.out(pipelines.details(found))
