"""`kubectl sky status --ports`: the endpoints of a task's ports."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_sky.cli import output

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.endpoints import Exposed
    from kubectl_sky.tasks.find import Target

_MAX_SUGGESTED_PORTS = 3  # ports in the suggested command


def show(session: "Session", target: "Target", form: str | None) -> None:
    from kubectl_sky.tasks import ports

    exposed_tasks = ports.list_exposed(session, target)
    if form == "name":
        output.names(f"service/{exposed.service}" for exposed in exposed_tasks)
    elif form:
        values = [exposed.as_json() for exposed in exposed_tasks]
        output.out(
            output.document("Ports", values[0], form)
            if len(values) == 1
            else output.document("PortsList", {"tasks": values}, form)
        )
    else:
        output.out(_table(exposed_tasks))
        for exposed in exposed_tasks:
            output.note(_next_step(exposed))


def _table(exposed_tasks: Sequence["Exposed"]) -> str:
    several = len(exposed_tasks) > 1
    header = [*(["TASK"] if several else []), "PORT", "ENDPOINT", "OUTSIDE", "POD-READY"]
    rows = [
        [
            *([exposed.task.name] if several else []),
            str(port.port),
            port.address,
            ",".join(port.outside) or ("pending" if exposed.pending else "<none>"),
            "yes" if exposed.ready else "no",
        ]
        for exposed in exposed_tasks
        for port in exposed.endpoints
    ]
    return output.table(header, rows)


def _next_step(exposed: "Exposed") -> str:
    if exposed.task.over:
        return f"task {exposed.task.id} has finished: nothing listens on its ports"
    if not exposed.ready:
        return f"the pod of rank 0 is not ready: kubectl sky status {exposed.task.id}"
    port_list = " ".join(str(port.port) for port in exposed.endpoints[:_MAX_SUGGESTED_PORTS])
    return f"on this machine: kubectl sky port-forward {exposed.task.id} {port_list}"
