"""`kubectl sky status`."""

import click

from kubectl_sky.cli import options, output, tasks


@click.command("status")
@click.argument("task")
@options.where_all
@options.all_users
@options.output("json", "yaml", "name")
def command(task: str, where: options.Where, all_users: bool, form: str | None) -> None:
    """Show TASK (an id, the beginning of one, or a name) and each of its nodes."""
    from kubectl_sky.actions import find, why

    session = where.session()
    found = find.task(session, options.scope(session, where, all_users), task)
    found = why.explained(session, found)
    if form == "name":
        output.out(f"task/{found.id}")
    else:
        output.out(output.data(found.as_json(), form) if form else tasks.details(found))
