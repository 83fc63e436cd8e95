"""`ports`: the Services that lead to tasks, what is behind them, and where they are reached."""

from kubectl_sky import kinds, names
from kubectl_sky.actions import find
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, UserError
from kubectl_sky.observe.endpoints import Exposed, exposed


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
    ]
    if not found:
        raise UserError(
            f"no Service leads to {target.id} ({target.name}): it has no ports, which `ports` under"
            " resources or --ports name, or is an array",
            f"without one: kubectl sky port-forward {target.id} PORT",
        )
    outside = any(service["spec"].get("type") == "NodePort" for _, service in found)
    machines = _machines(session) if outside else []
    return [exposed(task, service, _behind(session, service), machines) for task, service in found]


def _behind(session: Session, service: Json) -> list[Json]:
    chosen = (service["spec"].get("selector") or {}).items()
    labels = ",".join(f"{key}={value}" for key, value in chosen)
    return CoreManager(session).list_pods(service["metadata"]["namespace"], labels)


def _machines(session: Session) -> list[Json]:
    """Return the cluster's nodes; without the right to list them a pod knows its own."""
    try:
        return CoreManager(session).list_nodes()
    except Forbidden:
        return []
