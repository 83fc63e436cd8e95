"""`kubectl sky queues`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.observe.queues import QueueStatus

_UNKNOWN = "?"


@commands.group("queues")
def command() -> None:
    """Show Kueue's queues: what they give, who runs, who waits and in which place."""


@command.command("list", examples=["queues list -n team-a"])
@options.where
@options.output("json", "yaml", "name")
def list_(where: options.Where, form: str | None) -> None:
    """List the queues of the namespace, with how many tasks run and wait."""
    from kubectl_sky.actions import queues

    found = queues.listed(where.session())
    if form in ("json", "yaml"):
        output.out(output.data({"queues": [queue.as_json() for queue in found]}, form))
    elif form == "name":
        for queue in found:
            output.out(f"queue/{queue.name}")
    elif not found:
        output.note("the namespace has no queues: who runs the cluster makes LocalQueues")
    else:
        rows = [
            [
                one.name,
                one.cluster_queue,
                str(one.admitted),
                str(one.pending),
                one.stopped or "open",
            ]
            for one in found
        ]
        output.out(output.table(["QUEUE", "CLUSTERQUEUE", "ADMITTED", "PENDING", "STATE"], rows))


@command.command("status", examples=["queues status team-queue"])
@click.argument("queue")
@options.where
@options.output("json", "yaml")
def status(queue: str, where: options.Where, form: str | None) -> None:
    """Show what a QUEUE gives, what of it is used, and who waits, the next one first."""
    from kubectl_sky.actions import queues

    found = queues.one(where.session(), queue)
    if form:
        output.out(output.data(found.as_json(), form))
        return
    output.out("\n\n".join(filter(None, (_head(found), _shares(found), _waiting(found)))))
    if found.others is None:
        output.note(
            "the quota, and who waits in other namespaces, is not known: you may not see it"
        )


def _head(queue: "QueueStatus") -> str:
    others = "" if queue.others is None else f" ({queue.others} from all namespaces)"
    lines = [
        f"Queue:        {queue.name}",
        f"ClusterQueue: {queue.cluster_queue}",
        f"Admitted:     {queue.admitted}",
        f"Pending:      {queue.pending}{others}",
    ]
    return "\n".join([*lines, f"Stopped:      {queue.stopped}"] if queue.stopped else lines)


def _shares(queue: "QueueStatus") -> str:
    if not queue.shares:
        return ""
    rows = [
        [one.flavor, one.resource, one.used, one.used_by_all or _UNKNOWN, one.quota or _UNKNOWN]
        for one in queue.shares
    ]
    return output.table(["FLAVOR", "RESOURCE", "USED HERE", "USED BY ALL", "QUOTA"], rows)


def _waiting(queue: "QueueStatus") -> str:
    if not queue.waiting:
        return ""
    rows = [
        [str(one.place), one.owner, str(one.priority), one.since, one.reason]
        for one in queue.waiting
    ]
    return output.table(["PLACE", "WAITING", "PRIORITY", "SINCE", "REASON"], rows)
