"""`kubectl sky wait`."""

from datetime import timedelta

import click

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus


@commands.command(
    "wait", examples=["wait train", "wait train --timeout 1h", "wait PIPELINE --continue"]
)
@click.argument("wanted", nargs=-1, required=True, metavar="TASK...")
@options.where_all
@options.all_users
@click.option(
    "--timeout", type=options.DURATION, help="Give up after this long; else wait for ever."
)
@click.option(
    "--continue",
    "decides",
    is_flag=True,
    help="Release each stage of a pipeline when the one before it has succeeded, and cancel what"
    " is left when one fails, as submit does while it follows.",
)
@options.output("json", "yaml", "name")
def command(
    wanted: tuple[str, ...],
    where: options.Where,
    all_users: bool,
    timeout: timedelta | None,
    decides: bool,
    form: str | None,
) -> int:
    """Wait until TASKs, or all tasks of pipelines, have completed or failed.

    Exits with 0 when all have completed, with 4 when one has failed, with 1 at the timeout.

    When a node of a task has failed for good, its other nodes are ended: by the cluster, or with
    the backends jobs and volcano by this command.

    With --continue it goes on with pipelines that were submitted with --detach or interrupted.
    """
    from kubectl_sky.actions import find
    from kubectl_sky.actions.pipeline import all_ended

    session = where.session()
    found = find.targets(session, options.scope(session, where, all_users), wanted)
    limit = timeout.total_seconds() if timeout else None
    ended = all_ended(session, found, limit, output.note, decides)
    if form == "name":
        output.out("\n".join(tasks.name(each) for each in ended))
    elif form:
        every = [task.as_json() for each in ended for task in find.tasks_of(each)]
        whole = [each.as_json() for each in ended if not isinstance(each, TaskStatus)]
        output.out(output.data({"tasks": every} | ({"pipelines": whole} if whole else {}), form))
    else:
        for each in ended:
            note = f": {each.note}" if each.note else ""
            output.out(f"{tasks.name(each)} ({each.name}) {each.state}{note}")
    return 0 if all(each.state is State.COMPLETED for each in ended) else 4
