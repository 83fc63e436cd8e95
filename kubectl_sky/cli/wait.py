"""`kubectl sky wait`."""

from datetime import timedelta

import click

from kubectl_sky.cli import options, output
from kubectl_sky.observe.nodes import State


@click.command("wait")
@click.argument("wanted", nargs=-1, required=True, metavar="TASK...")
@options.where_all
@options.all_users
@click.option(
    "--timeout", type=options.DURATION, help="Give up after this long; else wait for ever."
)
@options.output("json", "yaml", "name")
def command(
    wanted: tuple[str, ...],
    where: options.Where,
    all_users: bool,
    timeout: timedelta | None,
    form: str | None,
) -> int:
    """Wait until TASKs have completed or failed.

    Exits with 0 when all have completed, with 4 when one has failed, with 1 at the timeout.
    """
    from kubectl_sky.actions import find, watch

    session = where.session()
    found = find.many(session, options.scope(session, where, all_users), wanted)
    ended = watch.all_ended(session, found, timeout.total_seconds() if timeout else None)
    if form == "name":
        output.out("\n".join(f"task/{task.id}" for task in ended))
    elif form:
        output.out(output.data({"tasks": [task.as_json() for task in ended]}, form))
    else:
        for task in ended:
            note = f": {task.note}" if task.note else ""
            output.out(f"task/{task.id} ({task.name}) {task.state}{note}")
    return 0 if all(task.state is State.COMPLETED for task in ended) else 4
