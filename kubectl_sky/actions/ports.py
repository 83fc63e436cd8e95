"""`ports`: the Services that lead to tasks, what is behind them, and where they are reached."""

from kubectl_sky import kinds, names
from kubectl_sky.actions import find
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, UserError
from kubectl_sky.observe.endpoints import Exposed, exposed
from kubectl_sky.observe.status import TaskStatus


def listed(session: Session, target: find.Target) -> list[Exposed]:
    """Return where the ports of a task, or of each task of several, are reached.

    Raises UserError where there are none.
    """
    found = [
        (task, service)
        for task in find.tasks_of(target)
        for service in objects.list_all(
            session,
            kinds.SERVICE,
            task.namespace,
            label_selector=f"{names.selector(task_id=task.id)},{names.PORTS}=true",
        )
        if service["metadata"]["name"] == _name(task)
    ]
    if not found:
        raise UserError(
            f"no Service leads to {target.id} ({target.name}): it has no ports, which `ports` under"
            " resources or --ports name, or is an array",
            f"without one: kubectl sky port-forward {target.id} PORT",
        )
    outside = any(service["spec"].get("type") == "NodePort" for _, service in found)
    machines = _machines(session) if outside else []
    return [
        exposed(task, service, _behind(session, task, service), machines) for task, service in found
    ]


def _name(task: TaskStatus) -> str:
    """Return the name that a submit gives: anybody can copy labels, but a name is taken once."""
    return names.ports_object(names.task_object(names.dns_label(task.name), task.id))


def _behind(session: Session, task: TaskStatus, service: Json) -> list[Json]:
    """Return the task's own pods behind a Service."""
    pods = {node.pod for node in task.nodes}
    chosen = (service["spec"].get("selector") or {}).items()
    labels = ",".join(f"{key}={value}" for key, value in chosen)
    behind = CoreManager(session).list_pods(service["metadata"]["namespace"], labels)
    return [pod for pod in behind if pod["metadata"]["name"] in pods]


def _machines(session: Session) -> list[Json]:
    """Return the cluster's nodes; without the right to list them a pod knows its own."""
    try:
        return CoreManager(session).list_nodes()
    except Forbidden:
        return []
