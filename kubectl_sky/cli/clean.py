"""`kubectl sky clean`."""

from datetime import UTC, datetime, timedelta

import click

from kubectl_sky.cli import options, output
from kubectl_sky.observe import age


@click.command("clean")
@options.where_all
@options.all_users
@options.yes
@click.option(
    "--older-than",
    type=options.DURATION,
    default="10m",
    show_default=True,
    help="Leave younger objects alone: their submit may be under way.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def command(
    where: options.Where, all_users: bool, yes: bool, older_than: timedelta, dry_run: bool
) -> None:
    """Remove what interrupted submits left behind: objects of tasks that nothing runs."""
    from kubectl_sky.actions import stop

    session = where.session()
    scope = options.scope(session, where, all_users)
    before = (datetime.now(UTC) - older_than).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = stop.orphans(session, scope, before)
    for item in found:
        metadata = item["metadata"]
        old = age.since(metadata["creationTimestamp"], datetime.now(UTC))
        output.out(f"{item['kind']}/{metadata['name']} in {metadata['namespace']}, {old} old")
    if not found or dry_run:
        output.note(f"{output.count(len(found), 'orphan')} found")
        return
    if not yes:
        options.confirm(f"Delete {output.count(len(found), 'object')}?")
    stop.remove(session, found)
    output.note(f"Removed {output.count(len(found), 'object')}")
