"""`kubectl sky usage`."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.observe.gpu_hours import Row


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
    """Show the GPU-hours of your tasks, and their cost if the settings have prices.

    A pod counts from the time that its cluster node accepted it until it ended. Only pods that
    still exist are counted, and failed pods that `wait` or `logs -f` recorded on this machine
    before they were deleted. Stopped tasks and other deleted pods are not known to the cluster.
    """
    from kubectl_sky.actions import gpu_hours, preferences
    from kubectl_sky.observe import gpu_hours as hours

    prices = preferences.preferences().prices
    session = cluster.session()
    start = datetime.now(UTC) - since
    counted = gpu_hours.counted(session, options.scope(session, cluster, all_users), start)
    rows = hours.rows(counted.spans, by, start, prices)
    total = hours.total(counted.spans, start, prices)
    unpriced = hours.unpriced(counted.spans, prices)
    if form:
        fields = {
            "since": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "by": by,
            "rows": [row.as_json() for row in rows],
            "total": total.as_json(),
            "pods": len(counted.pods),
            "recorded_pods": len(counted.recorded),
            "unpriced": unpriced,
        }
        output.out(output.document("GpuHoursList", fields, form))
        return
    if rows:
        output.out(_table(by, rows, total, with_cost=bool(prices)))
    output.note(
        f"counted: {output.count(len(counted.pods), 'existing pod')} with GPUs and"
        f" {output.count(len(counted.recorded), 'recorded failed pod')};"
        " not counted: other deleted pods"
    )
    if unpriced:
        output.warning(f"no price for {', '.join(unpriced)}: set prices in the settings")


def _table(by: str, rows: "list[Row]", total: "Row", *, with_cost: bool) -> str:
    lines = [*rows, total] if len(rows) > 1 else rows
    header = [by.upper(), "TASKS", "GPU-HOURS", *(["COST"] if with_cost else [])]
    return output.table(
        header,
        [
            [
                row.key,
                str(row.tasks),
                f"{row.hours:.1f}",
                *(["-" if row.cost is None else f"{row.cost:.2f}"] if with_cost else []),
            ]
            for row in lines
        ],
    )
