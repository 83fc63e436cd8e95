"""Replace the pods of lost cluster nodes.

Kubernetes marks the pods of a cluster node that does not respond for deletion, and waits for its
kubelet to end them. It may never come back, and a Job that recovers starts no other pod meanwhile.
Whoever leads the task removes such a pod, as `kubectl delete pod --force` does.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Conflict, NotFound
from kubectl_sky.observe.nodes import NodeStatus, is_stuck, with_silence
from kubectl_sky.observe.reasons import TERMINATING
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age, kinds
from kubectl_sky.words.pod_objects import Pod

_LATER = 5.0  # seconds until a pod is looked at again
_JOB_TRACKING = "batch.kubernetes.io/job-tracking"  # a finalizer that only an end would remove


def list_lost(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes whose pods only a lost cluster node keeps."""
    return [
        node
        for node in task.nodes
        if node.lost_since and node.reason == TERMINATING and not node.state.ended
    ]


def replace_lost_pods(
    session: Session, task: TaskStatus, after: timedelta
) -> tuple[list[NodeStatus], float | None]:
    """Remove the pods that are lost for long enough, so that the cluster replaces them.

    Return their nodes, and in how many seconds to look again. Raises Forbidden.
    """
    lost = list_lost(task)
    now = session.now()
    due = [node for node in lost if _seconds_left(node, after, now) <= 0]
    left = parallel.map_parallel(lambda node: _remove(session, task.namespace, node.pod), due)
    replaced = [node for node, seconds in zip(due, left, strict=True) if seconds is None]
    later = [_seconds_left(node, after, now) for node in lost if node not in due]
    return replaced, min((*filter(None, left), *later), default=None)


def _seconds_left(node: NodeStatus, after: timedelta, now: datetime) -> float:
    since = age.parse(node.lost_since)
    return (since + after - now).total_seconds() if since else 0.0


def _remove(session: Session, namespace: str, name: str) -> float | None:
    """Remove a pod that its lost cluster node still keeps; else return when to look again.

    Not within its grace period, in which a Job that does not wait for the pod notes its failure.
    The finalizer of another one goes, too: its controller waits for an end that nobody can report.
    """
    pod = _get(session, namespace, name)
    if pod is None or not is_stuck(with_silence(pod, session.now())):
        return _LATER  # the status was read before, and another pod may have its name now
    ends = age.parse(pod.metadata.deletion_timestamp)
    if ends and ends > session.now():
        return (ends - session.now()).total_seconds()

    objects.delete_by_uid(session, kinds.POD, pod.metadata.identity, grace=0)
    remaining = _get(session, namespace, name)
    if remaining and remaining.metadata.uid == pod.metadata.uid:
        with suppress(NotFound, Conflict):  # its controller has removed it meanwhile
            objects.patch(session, kinds.POD, name, namespace, _without_tracking(remaining))
    return None


def _get(session: Session, namespace: str, name: str) -> Pod | None:
    with suppress(NotFound):
        return objects.get(session, kinds.POD, name, namespace)
    return None


def _without_tracking(pod: Pod) -> Json:
    version = pod.metadata.resource_version
    finalizers = [it for it in pod.metadata.finalizers if it != _JOB_TRACKING]
    return {"metadata": {"resourceVersion": version, "finalizers": finalizers}}


def describe_replaced(replaced: Sequence[NodeStatus]) -> list[str]:
    """Return a line for each replaced node."""
    return [
        f"{node.name}: its pod on cluster node {node.host}, which does not respond, was removed"
        for node in replaced
    ]
