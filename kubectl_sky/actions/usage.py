"""`gpus` and `top`: what the cluster has, and what tasks use of it."""

from concurrent.futures import ThreadPoolExecutor

from kubectl_sky import kinds, names
from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.observe import usage
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.usage import Machine, Use

_HERE = "status.phase!=Succeeded,status.phase!=Failed"


def accelerators(session: Session) -> list[Machine]:
    """Return the machines with accelerators and who uses them, by two lists at once.

    Users without the right to list all pods do not learn what is used. Raises Forbidden for those
    who may not list nodes.
    """
    core = CoreManager(session)

    def pods() -> list[Json] | None:
        try:
            return core.list_pods(field_selector=_HERE)
        except Forbidden:
            return None

    with ThreadPoolExecutor(2) as pool:
        nodes, running = pool.submit(core.list_nodes), pool.submit(pods)
        return usage.machines(nodes.result(), running.result())


def top(session: Session, task: TaskStatus) -> list[Use]:
    """Return what the nodes of a task use. Raises NotServed where nothing measures it."""
    selector = names.selector(task_id=task.id)
    try:
        metrics = objects.list_all(
            session, kinds.POD_METRICS, task.namespace, label_selector=selector
        )
    except (NotServed, Forbidden) as error:
        if access.serves(session, kinds.POD_METRICS):  # else it may look forbidden
            raise
        raise NotServed(
            "the cluster measures nothing: it has no metrics API", "install metrics-server"
        ) from error
    pods = CoreManager(session).list_pods(task.namespace, selector)
    return usage.uses(task.nodes, pods, metrics)
