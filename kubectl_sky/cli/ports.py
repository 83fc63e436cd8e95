"""`kubectl sky status --ports`: the endpoints of a task's ports."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_sky.cli import output

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.endpoints import Ports
    from kubectl_sky.tasks.find import Target

_MAX_SUGGESTED_PORTS = 3  # ports in the suggested command


def show(session: "Session", target: "Target", form: str | None) -> None:
    from kubectl_sky.observe.endpoints import PortsList
    from kubectl_sky.tasks import find, ports

    exposed_tasks = ports.list_exposed(session, target)
    if form == "name":
        output.names(f"service/{exposed.service}" for exposed in exposed_tasks)
    elif form:
        output.out(
            output.document("Ports", exposed_tasks[0], form)
            if len(exposed_tasks) == 1
            else output.data(PortsList(tasks=exposed_tasks), form)
        )
    else:
        output.out(_table(exposed_tasks))
        finished = [task.id for task in find.tasks_of(target) if task.over]
        for exposed in exposed_tasks:
            task_id = exposed.task_id
            numbers = [str(port.port) for port in exposed.ports]
            if task_id in finished:
                output.note(f"task {task_id} has finished: nothing listens on its ports")
            elif not exposed.ready:
                output.note(f"the pod of rank 0 is not ready: kubectl sky status {task_id}")
            else:
                shown = " ".join(numbers[:_MAX_SUGGESTED_PORTS])
                output.note(f"on this machine: kubectl sky port-forward {task_id} {shown}")


def _table(exposed_tasks: Sequence["Ports"]) -> str:
    several = len(exposed_tasks) > 1
    header = [*(["TASK"] if several else []), "PORT", "ENDPOINT", "OUTSIDE", "POD-READY"]
    rows = [
        [
            *([exposed.name] if several else []),
            str(port.port),
            port.address,
            ",".join(port.outside) or ("pending" if exposed.pending else "<none>"),
            "yes" if exposed.ready else "no",
        ]
        for exposed in exposed_tasks
        for port in exposed.ports
    ]
    return output.table(header, rows)
