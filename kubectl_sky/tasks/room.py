"""Read what a gang that waits may find free: cluster nodes and the pods that use them."""

from collections.abc import Sequence

from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden
from kubectl_sky.plan.devices import DeviceNode
from kubectl_sky.tasks import devices
from kubectl_sky.words.core_objects import Node
from kubectl_sky.words.pod_objects import Pod

MAX_CLUSTER_NODES = 500  # of more, listing all their pods takes seconds
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def list_cluster_nodes(session: Session) -> Sequence[DeviceNode]:
    """Return the cluster nodes with their devices; none without permission."""
    try:
        return devices.list_cluster_nodes(session)
    except Forbidden:
        return ()


def list_running(session: Session, cluster_nodes: Sequence[Node]) -> Sequence[Pod] | None:
    """Return the unfinished pods of all namespaces; None without permission or on many nodes."""
    if not 0 < len(cluster_nodes) <= MAX_CLUSTER_NODES:
        return None
    try:
        return CoreManager(session).list_pods(field_selector=_UNFINISHED)
    except Forbidden:
        return None
