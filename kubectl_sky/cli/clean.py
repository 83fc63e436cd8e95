"""`kubectl sky stop --leftovers`: delete what interrupted submits left, and old tasks."""

from datetime import timedelta

from kubectl_sky.cli import options, output
from kubectl_sky.words import age


def clean(
    cluster: options.ClusterFlags,
    all_users: bool,
    yes: bool,
    older_than: timedelta | None,
    dry_run: bool,
    *,
    waits: bool,
) -> None:
    """Delete what interrupted submits left, and with a time, tasks that finished longer ago."""
    from kubectl_sky.tasks import deletion
    from kubectl_sky.tasks.clean import delete, find_leftovers
    from kubectl_sky.tasks.stop import ROLE_HINT

    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    leftovers = find_leftovers(session, scope, older_than)
    orphans = leftovers.orphans
    finished = leftovers.finished
    for kind in leftovers.unread:
        output.note(f"{kind.plural} are not cleaned: you may not list them; {ROLE_HINT}")
    if leftovers.young:
        output.note(
            f"{output.count(leftovers.young, 'orphan')} younger than 10 minutes kept: a running"
            " submit may need them; --older-than 0s includes them, and finished tasks"
        )
    for _, item in orphans:
        metadata = item.metadata
        elapsed = age.since(metadata.creation_timestamp, leftovers.now)
        output.out(f"{item.kind.kind}/{metadata.name} in {metadata.namespace}, {elapsed} old")
    for task in finished:
        elapsed = age.since(task.updated_at, leftovers.now)
        output.out(f"task/{task.id} ({task.name}) {task.state} {elapsed} ago")
    summary = " and ".join(
        output.count(len(items), noun)
        for items, noun in ((orphans, "orphan"), (finished, "task"))
        if items or noun == "orphan"
    )
    if dry_run or not (orphans or finished):
        output.note(f"{summary} found")
        return
    if not yes:
        options.confirm(f"Delete {summary}?")
    delete(session, leftovers)
    if waits:
        deletion.check_gone(session, finished)
    output.note(f"Removed {summary}" if waits or not finished else f"Deleting {summary}")
