"""`kubectl sky ports`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.observe.endpoints import Exposed

_MAX_SUGGESTED_PORTS = 3  # ports in the suggested command


@commands.command("ports", examples=["ports web", "ports web -o json"])
@click.argument("task", required=False)
@options.cluster_all_namespaces
@options.all_users
@options.output("wide", "json", "yaml", "name")
@options.no_headers
def command(
    task: str | None, cluster: options.ClusterFlags, all_users: bool, form: str | None
) -> None:
    """Show the endpoints of TASK's ports: at its Service, and outside the cluster.

    The ports are those of `resources.ports`. The Service leads to rank 0. POD-READY shows whether
    rank 0 has a running pod; Kubernetes does not know whether a program listens on the port.
    """
    from kubectl_sky.tasks import find, ports

    session = cluster.session()
    exposed_tasks = ports.list_exposed(
        session, find.get(session, options.scope(session, cluster, all_users), task)
    )
    if form == "name":
        output.names(f"service/{exposed.service}" for exposed in exposed_tasks)
    elif form not in (None, "wide"):
        values = [exposed.as_json() for exposed in exposed_tasks]
        output.out(
            output.document("Ports", values[0], form)
            if len(values) == 1
            else output.document("PortsList", {"tasks": values}, form)
        )
    else:
        output.out(_table(exposed_tasks, form == "wide"))
        for exposed in exposed_tasks:
            output.note(_next_step(exposed))


def _table(exposed_tasks: Sequence["Exposed"], wide: bool) -> str:
    several = len(exposed_tasks) > 1
    header = [*(["TASK"] if several else []), "PORT", "ENDPOINT", "OUTSIDE", "POD-READY"]
    rows = [
        [
            *([exposed.task.name] if several else []),
            str(port.port),
            port.address,
            ",".join(port.outside) or ("pending" if exposed.pending else "<none>"),
            "yes" if exposed.ready else "no",
            *(
                [exposed.type, exposed.cluster_ip or "None", exposed.service, exposed.pod]
                if wide
                else []
            ),
        ]
        for exposed in exposed_tasks
        for port in exposed.endpoints
    ]
    more = ["TYPE", "CLUSTER-IP", "SERVICE", "POD"] if wide else []
    return output.table([*header, *more], rows)


def _next_step(exposed: "Exposed") -> str:
    if exposed.task.over:
        return f"task {exposed.task.id} has finished: nothing listens on its ports"
    if not exposed.ready:
        return f"the pod of rank 0 is not ready: kubectl sky status {exposed.task.id}"
    port_list = " ".join(str(port.port) for port in exposed.endpoints[:_MAX_SUGGESTED_PORTS])
    return f"on this machine: kubectl sky port-forward {exposed.task.id} {port_list}"
