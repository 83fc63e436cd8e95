"""`kubectl sky queues`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output, packages

if TYPE_CHECKING:
    from kubectl_sky.observe.queues import Queue

_UNKNOWN = "?"


class _Queues(commands.Group):
    """Queues, and the fair shares that another package gives them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *packages.list_commands("queues")]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, name) or packages.find_command(f"queues {name}")


@click.group("queues", cls=_Queues)
def command() -> None:
    """Show Kueue's queues: their quota, and what is admitted or pending, in order."""


@command.command("list", examples=["queues list", "queues list -n team-a"])
@options.cluster
@options.output("json", "yaml", "name")
@options.no_headers
def list_(cluster: options.ClusterFlags, form: str | None) -> None:
    """List queues of the namespace, with counts of admitted and pending tasks."""
    from kubectl_sky.actions import queues
    from kubectl_sky.observe.queues import QueueList

    statuses = queues.list_queues(cluster.session())
    document = QueueList(queues=statuses)
    if output.print_document(form, document, (f"queue/{queue.name}" for queue in statuses)):
        return
    if not statuses:
        output.note("No queues found in the namespace; a cluster admin can create a LocalQueue.")
    else:
        rows = [
            [
                entry.name,
                entry.cluster_queue,
                str(entry.admitted),
                str(entry.pending),
                entry.stopped or "open",
            ]
            for entry in statuses
        ]
        output.out(output.table(["QUEUE", "CLUSTERQUEUE", "ADMITTED", "PENDING", "STATE"], rows))


@command.command(
    "status", examples=["queues status team-queue", "queues status team-queue -o json"]
)
@click.argument("queue")
@options.cluster
@options.output("json", "yaml")
def status(queue: str, cluster: options.ClusterFlags, form: str | None) -> None:
    """Show the quota and usage of QUEUE, and its pending workloads, next one first.

    GUESS is the time until a workload may be admitted, by how often the queue admitted workloads
    that you may read in the last 6 hours.
    """
    from kubectl_sky.actions import queues

    queue_status = queues.get_queue(cluster.session(), queue)
    if form:
        output.out(output.document("Queue", queue_status, form))
        return
    parts = [_summary(queue_status)]
    if queue_status.resources:
        header = ["FLAVOR", "RESOURCE", "USED HERE", "USED BY ALL", "QUOTA"]
        rows = [
            [
                share.flavor,
                share.resource,
                share.readable(share.used) or _UNKNOWN,
                share.readable(share.used_by_all) or _UNKNOWN,
                share.readable(share.quota) or _UNKNOWN,
            ]
            for share in queue_status.resources
        ]
        parts.append(output.table(header, rows))
    if queue_status.waiting:
        header = ["PLACE", "WAITING", "PRIORITY", "SINCE", "GUESS", "REASON"]
        rows = [
            [
                str(item.position),
                item.workload,
                str(item.priority),
                item.since,
                queue_status.guess(item.position) or _UNKNOWN,
                item.reason,
            ]
            for item in queue_status.waiting
        ]
        parts.append(output.table(header, rows))
    output.out("\n\n".join(parts))
    if queue_status.pending_in_cluster_queue is None:
        output.note(
            "quota and the workloads of other namespaces are hidden: you cannot list ClusterQueues"
        )


def _summary(queue: "Queue") -> str:
    others = (
        ""
        if queue.pending_in_cluster_queue is None
        else f" ({queue.pending_in_cluster_queue} from all namespaces)"
    )
    lines = [
        f"Queue:        {queue.name}",
        f"ClusterQueue: {queue.cluster_queue}",
        f"Admitted:     {queue.admitted}",
        f"Pending:      {queue.pending}{others}",
        f"Next task:    {queue.next_task}",
    ]
    return "\n".join([*lines, f"Stopped:      {queue.stopped}"] if queue.stopped else lines)
