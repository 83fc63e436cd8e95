"""`queues`: list the LocalQueues of a namespace, as far as the user can see."""

from collections.abc import Mapping
from typing import TypeVar

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotServed, Outdated, UnknownName
from kubectl_sky.observe.admission import QueueState
from kubectl_sky.observe.forecast import LocalQueue
from kubectl_sky.observe.queues import Queue, queues
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.scheduled_objects import KueueQueue

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
    cluster_queues, cohorts = (
        _list_if_allowed(session, kind) or [] for kind in (kinds.CLUSTER_QUEUE, kinds.COHORT)
    )
    workloads = _list_if_allowed(session, kinds.QUEUED_WORKLOAD, namespace) or []
    by_name = {item.metadata.name: item for item in cluster_queues}
    return queues(local, by_name, workloads, session.now(), cohorts)


def read_local_queues(session: Session, namespace: str) -> dict[str, LocalQueue]:
    """Return the queues of a namespace by name, with what decides when they admit something.

    Empty without Kueue, or without permission to list them.
    """
    local = _list_if_allowed(session, kinds.LOCAL_QUEUE, namespace)
    if not local:
        return {}
    with parallel.pool(4) as pool:
        listed = pool.submit(_list_if_allowed, session, kinds.CLUSTER_QUEUE)
        of_cohorts = pool.submit(_list_if_allowed, session, kinds.COHORT)
        of_flavors = pool.submit(_list_if_allowed, session, kinds.RESOURCE_FLAVOR)
        labels = pool.submit(_read_labels, session, namespace)
        workloads = _list_if_allowed(session, kinds.QUEUED_WORKLOAD, namespace)
        cluster_queues = {it.metadata.name: it for it in listed.result() or ()}
        cohorts = of_cohorts.result()
        flavors = of_flavors.result()

    items = list(cluster_queues.values())
    by_name = {it.metadata.name: it for it in flavors} if flavors else None
    shown = queues(local, cluster_queues, workloads or (), session.now(), cohorts or ())
    found = {}
    for item, queue in zip(sorted(local, key=_name), shown, strict=True):
        own = cluster_queues.get(item.spec.cluster_queue)
        state = QueueState(own, items, cohorts, by_name) if own else None
        found[queue.name] = LocalQueue(item, queue, state, labels.result())
    return found


def _name(item: KueueQueue) -> str:
    return item.metadata.name


def _read_labels(session: Session, namespace: str) -> Mapping[str, str] | None:
    try:
        return objects.get(session, kinds.NAMESPACE, namespace).metadata.labels
    except ClusterError:
        return None


def get_queue(session: Session, name: str) -> Queue:
    """Return one queue. Raises UserError if it is not found in the namespace."""
    queues_by_name = {queue.name: queue for queue in list_queues(session)}
    if name not in queues_by_name:
        hint = f"queues: {', '.join(queues_by_name)}" if queues_by_name else ""
        raise UnknownName(f'queue "{name}" not found in namespace "{session.namespace}"', hint)
    return queues_by_name[name]


def _list_if_allowed(
    session: Session, kind: ReadKind[T], namespace: str | None = None
) -> list[T] | None:
    """List a kind; empty if it is not served, None if it is forbidden."""
    try:
        return access.list_kueue(session, kind, namespace)
    except Forbidden:
        return None
    except NotServed:
        return []
