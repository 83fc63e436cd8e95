"""`ports`: list the Services of tasks, their pods and their addresses."""

from kubectl_sky.actions import find
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, UserError
from kubectl_sky.observe.endpoints import Exposed, exposed
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds, names


def list_exposed(session: Session, target: find.Target) -> list[Exposed]:
    """Return the exposed ports of a task, or of each task of a pipeline or group.

    Raises UserError if there are none.
    """
    services = [
        (task, service)
        for task in find.tasks_of(target)
        for service in objects.list_all(
            session,
            kinds.SERVICE,
            task.namespace,
            label_selector=f"{names.selector({names.TASK_ID: task.id})},{names.PORTS}=true",
        )
        if service["metadata"]["name"] == _name(task)
    ]
    if not services:
        raise UserError(
            f"{target.id} ({target.name}) has no Service: set resources.ports or --ports when you"
            " submit it (not supported for arrays)",
            f"without a Service: kubectl sky port-forward {target.id} PORT",
        )
    has_node_ports = any(service["spec"].get("type") == "NodePort" for _, service in services)
    cluster_nodes = _list_cluster_nodes(session) if has_node_ports else []
    return [
        exposed(task, service, _selected_pods(session, task, service), cluster_nodes)
        for task, service in services
    ]


def _name(task: TaskStatus) -> str:
    """Return the Service name that submit uses.

    Labels can be copied to other Services, but names are unique.
    """
    return names.ports_object(names.task_object(names.dns_label(task.name), task.id))


def _selected_pods(session: Session, task: TaskStatus, service: Json) -> list[Json]:
    """Return the pods that a Service selects and that belong to the task."""
    pods = {node.pod for node in task.nodes}
    labels = names.selector(service["spec"].get("selector") or {})
    candidates = CoreManager(session).list_pods(service["metadata"]["namespace"], labels)
    return [pod for pod in candidates if pod["metadata"]["name"] in pods]


def _list_cluster_nodes(session: Session) -> list[Json]:
    """Return the cluster nodes; empty without permission to list them.

    The status of a pod still has the address of its cluster node.
    """
    try:
        return CoreManager(session).list_nodes()
    except Forbidden:
        return []
