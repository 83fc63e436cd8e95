"""`queues`: list the LocalQueues of a namespace, as far as the user can see."""

from typing import TypeVar

from kubectl_sky.cluster import access
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed, Outdated, UnknownName
from kubectl_sky.observe.queues import Queue, queues
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import ReadKind

T = TypeVar("T")


def list_queues(session: Session) -> list[Queue]:
    """Return the queues of the namespace. Raises ClusterError without Kueue."""
    namespace = session.namespace
    try:
        local = access.list_kueue(session, kinds.LOCAL_QUEUE, namespace)
    except Outdated:
        raise
    except NotServed:
        raise NotServed(
            "Kueue is not installed in the cluster",
            "see https://kueue.sigs.k8s.io",
        ) from None
    cluster_queues = _list_if_allowed(session, kinds.CLUSTER_QUEUE)
    workloads = _list_if_allowed(session, kinds.QUEUED_WORKLOAD, namespace)
    by_name = {item.metadata.name: item for item in cluster_queues}
    return queues(local, by_name, workloads, session.now())


def get_queue(session: Session, name: str) -> Queue:
    """Return one queue. Raises UserError if it is not found in the namespace."""
    queues_by_name = {queue.name: queue for queue in list_queues(session)}
    if name not in queues_by_name:
        hint = f"queues: {', '.join(queues_by_name)}" if queues_by_name else ""
        raise UnknownName(f'queue "{name}" not found in namespace "{session.namespace}"', hint)
    return queues_by_name[name]


def _list_if_allowed(session: Session, kind: ReadKind[T], namespace: str | None = None) -> list[T]:
    """List a kind; empty if it is forbidden or not served."""
    try:
        return access.list_kueue(session, kind, namespace)
    except (Forbidden, NotServed):
        return []
