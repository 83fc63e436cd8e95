"""`kubectl sky usage`."""

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.gpus.hours import Usage

_BAR = 20  # characters of the longest bar, which only a terminal shows


@commands.command(
    "usage",
    examples=["usage", "usage --since 30d --by user --all-users", "usage --by gpu -o json"],
)
@click.option(
    "--since",
    type=options.DURATION,
    default="30d",
    show_default=True,
    help="Count the GPU-hours of this time until now: 12h, 7d.",
)
@click.option(
    "--by",
    type=click.Choice(["user", "name", "gpu"]),
    default="user",
    show_default=True,
    help="Add up by owner, by task name or by GPU model.",
)
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml")
@options.no_headers
def command(
    since: timedelta,
    by: str,
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
) -> None:
    """Show the GPU-hours of your tasks.

    A task counts from the start of its Jobs to their end, also if its pods are deleted. The time
    before its first pod started does not count, unless some of its pods are deleted and no queue
    admitted it: then its hours are not exact. Stopped and other deleted tasks are
    not known to the cluster, nor is the time before a queue suspended a task.
    """
    from kubectl_sky.gpus import action

    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    usage = action.usage(session, scope, since, by)
    if form:
        output.out(output.data(usage, form))
        return
    if usage.rows:
        output.out(_table(usage))
    output.note(
        f"counted: {output.count(usage.total.tasks, 'task')} with GPUs; not counted: deleted tasks"
    )
    if not usage.total.tasks:
        output.note("hint: only GPUs are counted; `kubectl sky top TASK` shows CPU and memory")
    if goodput := usage.goodput:
        unknown = goodput.finished - goodput.known
        rest = f"; not recorded: {output.count(unknown, 'finished task')}" if unknown else ""
        tasks = output.count(goodput.known, "finished task")
        output.note(
            f"goodput: {goodput.percent:.0f}% of the GPU-hours of {tasks} went into new steps{rest}"
        )
    if usage.inexact:
        output.note(
            f"not exact: {output.count(usage.inexact, 'task')} with deleted pods or Jobs;"
            " waiting for a cluster node may be counted"
        )


def _table(usage: "Usage") -> str:
    lines = [*usage.rows, usage.total] if len(usage.rows) > 1 else usage.rows
    header = [usage.by.upper(), "TASKS", "GPU-HOURS"]
    most = max((row.hours for row in usage.rows), default=0) if sys.stdout.isatty() else 0
    header += [""] if most else []

    return output.table(
        header,
        [
            [
                row.key,
                str(row.tasks),
                f"{row.hours:.1f}",
                *([_bar(row.hours, most) if row is not usage.total else ""] if most else []),
            ]
            for row in lines
        ],
    )


def _bar(hours: float, most: float) -> str:
    """Return a bar that is as long as the share of the largest row."""
    shortest = 1 if hours else 0
    return "#" * max(round(_BAR * hours / most), shortest)
