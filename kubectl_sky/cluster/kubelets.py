"""Name the cluster node of a pod whose kubelet the API server cannot reach."""

from contextlib import suppress

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, KubeletUnreachable, Unreachable
from kubectl_sky.words import kinds


def name_node(
    session: Session, namespace: str, pod: str, error: KubeletUnreachable
) -> KubeletUnreachable:
    """Return the error with the name of the cluster node. Raises NotFound if the pod is gone."""
    node = ""
    with suppress(Forbidden, Unreachable):
        existing = objects.get(session.impatient(), kinds.POD, pod, namespace)
        node = existing.spec.node_name
    if not node:
        return error
    hint = error.hint or f"`kubectl describe node {node}` shows a cluster admin why"
    what = f"cluster node {node} of pod {pod} {error.problem}"
    return KubeletUnreachable(what, hint, error.problem, node)
