"""`kubectl sky ports`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.observe.endpoints import Exposed

_NAMED = 3  # ports that the next command is written with


@commands.command("ports", examples=["ports web", "ports web -o json"])
@click.argument("task")
@options.where_all
@options.all_users
@options.output("wide", "json", "yaml", "name")
def command(task: str, where: options.Where, all_users: bool, form: str | None) -> None:
    """Show where the ports of TASK are reached: by its Service, and from outside the cluster.

    The ports are those of `resources.ports`, and the Service leads to rank 0. READY says whether
    that has a pod that runs; whether its program listens already is not known.
    """
    from kubectl_sky.actions import find, ports

    session = where.session()
    found = ports.listed(session, find.one(session, options.scope(session, where, all_users), task))
    if form == "name":
        output.out("\n".join(f"service/{one.service}" for one in found))
    elif form not in (None, "wide"):
        values = [one.as_json() for one in found]
        output.out(output.data(values[0] if len(values) == 1 else {"tasks": values}, form))
    else:
        output.out(_table(found, form == "wide"))
        for one in found:
            output.note(_next(one))


def _table(found: Sequence["Exposed"], wide: bool) -> str:
    several = len(found) > 1
    header = [*(["TASK"] if several else []), "PORT", "ENDPOINT", "OUTSIDE", "READY"]
    rows = [
        [
            *([one.task.name] if several else []),
            str(port.port),
            port.address,
            ",".join(port.outside) or ("pending" if one.pending else "<none>"),
            "yes" if one.ready else "no",
            *([one.type, one.cluster_ip or "None", one.service, one.pod] if wide else []),
        ]
        for one in found
        for port in one.endpoints
    ]
    more = ["TYPE", "CLUSTER-IP", "SERVICE", "POD"] if wide else []
    return output.table([*header, *more], rows)


def _next(one: "Exposed") -> str:
    """What to type now."""
    if one.task.over:
        return f"task {one.task.id} has ended: nothing answers at its ports"
    if not one.ready:
        return f"rank 0 is not ready: kubectl sky status {one.task.id}"
    named = " ".join(str(port.port) for port in one.endpoints[:_NAMED])
    return f"on this machine: kubectl sky port-forward {one.task.id} {named}"
