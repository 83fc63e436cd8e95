"""`kubectl sky list`."""

import click

from kubectl_sky.cli import options, output, tasks


@click.command("list")
@options.where_all
@options.all_users
@options.output(*tasks.FORMATS)
@click.option("--details", is_flag=True, help="Show namespaces, users and Jobs too.")
def command(where: options.Where, all_users: bool, form: str | None, details: bool) -> None:
    """List your tasks, newest first."""
    from kubectl_sky.actions import find

    session = where.session()
    found = find.tasks(session, options.scope(session, where, all_users))
    columns = [
        *(["NAMESPACE"] if where.all_namespaces or details else []),
        *(["USER"] if all_users or details else []),
        *(["JOBS"] if details else []),
    ]
    if found or form in ("json", "yaml"):
        output.out(tasks.listing(found, form, columns))
    elif form != "name":
        place = "any namespace" if where.all_namespaces else f"namespace {session.namespace}"
        output.note(f"No tasks found in {place}.")
