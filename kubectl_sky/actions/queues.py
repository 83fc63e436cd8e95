"""`queues`: list the LocalQueues of a namespace, as far as the user can see."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotServed, Outdated, UnknownName
from kubectl_sky.observe.admission import QueueState
from kubectl_sky.observe.forecast import LocalQueue
from kubectl_sky.observe.queues import Queue, queues
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.scheduled_objects import KueueQueue, QueuedWorkload

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


def read_states(session: Session, namespace: str) -> dict[str, QueueState]:
    """Return the readable ClusterQueues by the names of their LocalQueues in a namespace."""
    local = _list_if_allowed(session, kinds.LOCAL_QUEUE, namespace)
    states = _read_cluster_queues(session) if local else {}
    return {
        item.metadata.name: states[item.spec.cluster_queue]
        for item in local or ()
        if item.spec.cluster_queue in states
    }


def read_local_queues(session: Session, namespace: str) -> dict[str, LocalQueue]:
    """Return the queues of a namespace by name, with what decides when they admit something.

    Empty without Kueue, or without permission to list them.
    """
    local = _list_if_allowed(session, kinds.LOCAL_QUEUE, namespace)
    if not local:
        return {}
    with parallel.pool(3) as pool:
        listed = pool.submit(_list_workloads, session, namespace)
        labels = pool.submit(_read_labels, session, namespace)
        levels = pool.submit(_read_topologies, session)
        states = _read_cluster_queues(session)
        of_all = listed.result()
        topologies = levels.result()
    states = {
        name: replace(state, workloads=of_all, topologies=topologies)
        for name, state in states.items()
    }
    workloads = [item for item in of_all if item.metadata.namespace == namespace]

    cluster_queues = {name: state.item for name, state in states.items()}
    cohorts = next((state.cohorts for state in states.values()), None)
    shown = queues(local, cluster_queues, workloads, session.now(), cohorts or ())
    return {
        queue.name: LocalQueue(item, queue, states.get(queue.cluster_queue), labels.result())
        for item, queue in zip(sorted(local, key=_name), shown, strict=True)
    }


def _list_workloads(session: Session, namespace: str) -> list[QueuedWorkload]:
    """Return the Workloads of all namespaces, or of one without permission to list all."""
    of_all = _list_if_allowed(session, kinds.QUEUED_WORKLOAD)
    if of_all is not None:
        return of_all
    return _list_if_allowed(session, kinds.QUEUED_WORKLOAD, namespace) or []


def _read_cluster_queues(session: Session) -> dict[str, QueueState]:
    """Return the ClusterQueues by name; empty without permission to list them."""
    with parallel.pool(2) as pool:
        of_cohorts = pool.submit(_list_if_allowed, session, kinds.COHORT)
        of_flavors = pool.submit(_list_if_allowed, session, kinds.RESOURCE_FLAVOR)
        items = _list_if_allowed(session, kinds.CLUSTER_QUEUE) or []
        cohorts = of_cohorts.result()
        flavors = of_flavors.result()
    by_name = {item.metadata.name: item for item in flavors} if flavors else None
    return {item.metadata.name: QueueState(item, items, cohorts, by_name) for item in items}


def _read_topologies(session: Session) -> dict[str, list[str]] | None:
    """Return the levels of topologies by name; None if they cannot be listed."""
    try:
        items = access.list_kueue(session, kinds.TOPOLOGY)
    except (Forbidden, NotServed):
        return None
    return {it.metadata.name: [level.node_label for level in it.spec.levels] for it in items}


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
