"""`kubectl sky stop --leftovers`: delete what interrupted submits left, and old tasks."""

from datetime import datetime, timedelta

from kubectl_sky.cli import options, output
from kubectl_sky.observe.pipelines import finished_before
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age

_MIN_ORPHAN_AGE = timedelta(minutes=10)  # younger objects may belong to a running submit


def clean(
    cluster: options.ClusterFlags,
    all_users: bool,
    yes: bool,
    older_than: timedelta | None,
    dry_run: bool,
) -> None:
    """Delete what interrupted submits left, and with a time, tasks that finished longer ago."""
    from kubectl_sky.tasks import find, multikueue, stop

    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    without_task, forbidden_kinds = stop.list_orphans(session, scope)
    now = session.now()
    limit = _before(now, _MIN_ORPHAN_AGE if older_than is None else older_than)
    # Times are truncated to seconds: with 0s, what was created in this second counts.
    found = [(session, item) for item in without_task] + multikueue.orphans(session, scope)
    orphans = [entry for entry in found if entry[1]["metadata"]["creationTimestamp"] <= limit]
    for kind in forbidden_kinds:
        output.note(f"{kind.plural} are not cleaned: you may not list them; {stop.ROLE_HINT}")
    _note_young(len(found) - len(orphans) if older_than is None else 0)
    finished: list[TaskStatus] = []
    if older_than is not None:
        cutoff = _before(now, older_than)
        finished = finished_before(find.list_tasks(session, scope, find.Read(pods=False)), cutoff)
    for _, item in orphans:
        metadata = item["metadata"]
        elapsed = age.since(metadata["creationTimestamp"], now)
        output.out(f"{item['kind']}/{metadata['name']} in {metadata['namespace']}, {elapsed} old")
    for task in finished:
        elapsed = age.since(task.updated_at, now)
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
    stop.delete_orphans(orphans)
    stop.stop(session, finished)
    output.note(f"Removed {summary}")


def _note_young(number: int) -> None:
    if number:
        output.note(
            f"{output.count(number, 'orphan')} younger than 10 minutes kept: a running submit may"
            " need them; --older-than 0s includes them, and finished tasks"
        )


def _before(now: datetime, span: timedelta) -> str:
    return (now - span).strftime("%Y-%m-%dT%H:%M:%SZ")
