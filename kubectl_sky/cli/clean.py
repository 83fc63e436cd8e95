"""`kubectl sky clean`."""

from datetime import datetime, timedelta

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.observe.pipelines import finished_before
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age

_MIN_ORPHAN_AGE = timedelta(minutes=10)  # younger objects may belong to a running submit


@commands.command("clean", examples=["clean --dry-run=client", "clean --older-than 7d"])
@options.cluster_all_namespaces
@options.all_users
@options.yes
@click.option(
    "--older-than",
    type=options.DURATION,
    help="Include tasks that finished longer ago (default: only orphans older than 10 minutes).",
)
@click.option("--orphans", is_flag=True, help="Delete only what interrupted submits left.")
@options.dry_run_delete
def command(cluster: options.ClusterFlags, all_users: bool, yes: bool, **flags: object) -> None:
    """Delete what interrupted submits left, and with --older-than finished tasks.

    The logs of the deleted tasks are deleted too.
    """
    from kubectl_sky.tasks import find, multikueue, stop

    older_than = flags["older_than"]
    assert older_than is None or isinstance(older_than, timedelta)
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
    if older_than is not None and not flags["orphans"]:
        cutoff = _before(now, older_than)
        finished = finished_before(find.list_without_pods(session, scope), cutoff)
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
    if flags["dry_run"] != "none" or not (orphans or finished):
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
            " need them; include them with --orphans --older-than 0s"
        )


def _before(now: datetime, span: timedelta) -> str:
    return (now - span).strftime("%Y-%m-%dT%H:%M:%SZ")
