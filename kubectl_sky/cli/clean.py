"""`kubectl sky clean`."""

from datetime import UTC, datetime, timedelta

import click

from kubectl_sky import kinds
from kubectl_sky.cli import commands, options, output
from kubectl_sky.kinds import Kind
from kubectl_sky.observe import age
from kubectl_sky.observe.status import TaskStatus

_UNDER_WAY = timedelta(minutes=10)  # younger objects may belong to a submit that goes on


@commands.command("clean", examples=["clean --dry-run", "clean --older-than 7d"])
@options.where_all
@options.all_users
@options.yes
@click.option(
    "--older-than",
    type=options.DURATION,
    help="Tasks that ended longer ago, too. Without it only orphans, of 10 minutes and older.",
)
@click.option("--orphans", is_flag=True, help="Only what interrupted submits left behind.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def command(where: options.Where, all_users: bool, yes: bool, **flags: object) -> None:
    """Remove what interrupted submits left behind, and with --older-than tasks that have ended.

    The logs of tasks go with them.
    """
    from kubectl_sky.actions import find, stop

    older_than = flags["older_than"]
    assert older_than is None or isinstance(older_than, timedelta)
    session = where.session()
    scope = options.scope(session, where, all_users)
    orphans, unread = stop.orphans(
        session, scope, _before(_UNDER_WAY if older_than is None else older_than)
    )
    for kind in unread:
        output.note(f"{kind.plural} are not cleaned: you may not list them{_granting(kind)}")
    ended: list[TaskStatus] = []
    if older_than is not None and not flags["orphans"]:
        before = _before(older_than)
        every = find.tasks(session, scope)
        ended = [task for task in every if task.over and task.updated_at < before]
    for item in orphans:
        metadata = item["metadata"]
        old = age.since(metadata["creationTimestamp"], datetime.now(UTC))
        output.out(f"{item['kind']}/{metadata['name']} in {metadata['namespace']}, {old} old")
    for task in ended:
        old = age.since(task.updated_at, datetime.now(UTC))
        output.out(f"task/{task.id} ({task.name}) {task.state} {old} ago")
    what = " and ".join(
        output.count(len(found), noun)
        for found, noun in ((orphans, "orphan"), (ended, "task"))
        if found or noun == "orphan"
    )
    if flags["dry_run"] or not (orphans or ended):
        output.note(f"{what} found")
        return
    if not yes:
        options.confirm(f"Delete {what}?")
    stop.remove(session, orphans)
    stop.stop(session, ended)
    output.note(f"Removed {what}")


def _granting(kind: Kind) -> str:
    """Say which Role grants what the usual one does not."""
    extra = "; `kubectl sky doctor --role --with clean` prints a Role that grants it"
    return extra if kind is kinds.SECRET else ""


def _before(span: timedelta) -> str:
    return (datetime.now(UTC) - span).strftime("%Y-%m-%dT%H:%M:%SZ")
