"""`queues`: what the queues of a namespace give, as far as its users may see it."""

from kubectl_sky import kinds
from kubectl_sky.cluster import kueue
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, Forbidden, NotServed, Outdated, UserError
from kubectl_sky.kinds import Kind
from kubectl_sky.observe.queues import QueueStatus, queues


def listed(session: Session) -> list[QueueStatus]:
    """Return the queues of the session's namespace. Raises ClusterError without Kueue."""
    namespace = session.namespace
    try:
        local = kueue.listed(session, kinds.LOCAL_QUEUE, namespace)
    except Outdated:
        raise
    except NotServed:
        raise ClusterError(
            "Kueue is not installed in the cluster, so that there are no queues",
            "see https://kueue.sigs.k8s.io",
        ) from None
    whole = _seen(session, kinds.CLUSTER_QUEUE)
    workloads = _seen(session, kinds.QUEUED_WORKLOAD, namespace)
    return queues(local, {item["metadata"]["name"]: item for item in whole}, workloads)


def one(session: Session, name: str) -> QueueStatus:
    """Return one queue. Raises UserError where the namespace has none of this name."""
    found = {queue.name: queue for queue in listed(session)}
    if name not in found:
        there = f"there are: {', '.join(found)}" if found else "it has none"
        raise UserError(f"there is no queue {name!r} in namespace {session.namespace}", there)
    return found[name]


def _seen(session: Session, kind: Kind, namespace: str | None = None) -> list[Json]:
    """List what only some users may see."""
    try:
        return kueue.listed(session, kind, namespace)
    except (Forbidden, NotServed):
        return []
