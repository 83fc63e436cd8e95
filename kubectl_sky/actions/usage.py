"""`gpus` and `top`: report the GPUs of the cluster and the usage of tasks."""

from concurrent.futures import ThreadPoolExecutor

from kubectl_sky import kinds, names
from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.observe import usage
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.usage import AcceleratorNode, Use

_UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"


def accelerators(session: Session) -> list[AcceleratorNode]:
    """Return the cluster nodes with accelerators and their users; two parallel lists.

    The usage is unknown without permission to list all pods. Raises Forbidden without permission to
    list cluster nodes.
    """
    core = CoreManager(session)

    def pods() -> list[Json] | None:
        try:
            return core.list_pods(field_selector=_UNFINISHED_PODS)
        except Forbidden:
            return None

    with ThreadPoolExecutor(2) as pool:
        nodes, running = pool.submit(core.list_nodes), pool.submit(pods)
        return usage.accelerator_nodes(nodes.result(), running.result())


def top(session: Session, task: TaskStatus) -> list[Use]:
    """Return the usage of a task's nodes. Raises NotServed without a metrics API."""
    selector = names.selector(task_id=task.id)
    try:
        metrics = objects.list_all(
            session, kinds.POD_METRICS, task.namespace, label_selector=selector
        )
    except (NotServed, Forbidden) as error:
        if access.serves(
            session, kinds.POD_METRICS
        ):  # a kind that is not served may be reported as forbidden
            raise
        raise NotServed("the cluster has no metrics API", "install metrics-server") from error
    pods = CoreManager(session).list_pods(task.namespace, selector)
    return usage.uses(task.nodes, pods, metrics)
