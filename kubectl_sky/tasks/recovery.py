"""Start nodes again that their cluster node keeps from running, as whoever leads a task does.

Kubernetes marks the pods of a cluster node that does not respond for deletion, and waits for its
kubelet to end them. It may never come back, and a Job that recovers starts no other pod meanwhile.
Such a pod is removed, as `kubectl delete pod --force` does.

A cluster node whose devices are broken refuses pod after pod, and the scheduler chooses it again.
The Job leaves it after two pods: it is suspended for a moment, and gets another node affinity.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Conflict, Forbidden, Invalid, NotFound
from kubectl_sky.observe.deletion import repair
from kubectl_sky.observe.nodes import NodeStatus, is_stuck, with_silence
from kubectl_sky.observe.reasons import TERMINATING
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age, kinds, names
from kubectl_sky.words.pod_objects import Pod

_LATER = 5.0  # seconds until a pod is looked at again
_STEP = 1.0  # seconds until a Job that is being suspended is looked at again
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
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


def list_refused(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes whose Job is to leave a cluster node that refuses its pods."""
    return [node for node in task.nodes if node.refused_by]


def leave_refusing(session: Session, task: TaskStatus) -> list[str]:
    """Do the next step for nodes whose cluster node refuses them; return the last steps, in lines.

    Doing it twice is harmless. Raises Forbidden.
    """
    nodes = list_refused(task)
    if not nodes:
        return []
    selector = names.selector({names.TASK_ID: task.id})
    manifests = objects.list_manifests(session, kinds.JOB, task.namespace, label_selector=selector)
    jobs = {item["metadata"]["name"]: item for item in manifests}
    existing = [node for node in nodes if node.job in jobs]
    texts = parallel.map_parallel(
        lambda node: _leave(session, task, node, jobs[node.job]), existing
    )
    return [text for text in texts if text]


def _leave(session: Session, task: TaskStatus, node: NodeStatus, job: Json) -> str:
    """Suspend the Job of a node, or, when that is done, resume it with another affinity.

    An annotation tells that it was suspended for this, also to whoever leads the task next.
    """
    host = node.refused_by
    with suppress(NotFound):  # the task was deleted meanwhile
        is_ours = job["metadata"].get("annotations", {}).get(names.LEAVES) == host
        if is_ours and _is_suspended(job):
            return _resume_elsewhere(session, task, node, job)
        if not is_ours and not job["spec"].get("suspend"):
            annotations = {names.LEAVES: host}
            body = {"metadata": {"annotations": annotations}, "spec": {"suspend": True}}
            objects.patch_by_uid(session, kinds.JOB, task.identity(node.job), body)
    return ""


def _resume_elsewhere(session: Session, task: TaskStatus, node: NodeStatus, job: Json) -> str:
    identity = task.identity(node.job)
    host = node.refused_by
    affinity = _without(host, job)
    spec = {"suspend": False, "template": {"spec": {"affinity": affinity}}}
    try:
        objects.patch_by_uid(session, kinds.JOB, identity, {"spec": spec})
    except Invalid:  # before Kubernetes 1.36
        objects.patch_by_uid(session, kinds.JOB, identity, {"spec": {"suspend": False}})
        advice = f"submit the task again with --exclude-node {host}"
        return f"{node.name}: cluster node {host} refuses its pods; {advice}"
    return f"{node.name}: cluster node {host} refused two of its pods; it starts on another one"


def _is_suspended(job: Json) -> bool:
    status = job["status"]
    conditions = {item["type"]: item["status"] for item in status.get("conditions", ())}
    has_stopped = conditions.get("Suspended") == "True" and not status.get("active")
    return bool(job["spec"].get("suspend")) and has_stopped


def _without(host: str, job: Json) -> Json:
    """Return the node affinity of a Job without a cluster node, as a merge patch."""
    affinity = job["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get(_REQUIRED, {}).get("nodeSelectorTerms") or [{}]
    rule = {"key": "metadata.name", "operator": "NotIn", "values": [host]}
    others = [term | {"matchFields": [*term.get("matchFields", ()), rule]} for term in terms]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": others}}}


def needs_recovery(task: TaskStatus) -> bool:
    return bool(list_lost(task) or list_refused(task))


def recover(
    session: Session, task: TaskStatus, node_lost_after: timedelta | None
) -> tuple[list[str], float | None]:
    """Do what is due for the nodes of a task; lost pods are left without a time.

    Return what was done, in lines, and in how many seconds to look again. Raises Forbidden.
    """
    texts = leave_refusing(session, task)
    seconds = _STEP if list_refused(task) else None
    if node_lost_after is not None and list_lost(task):
        replaced, later = replace_lost_pods(session, task, node_lost_after)
        texts += _describe_replaced(replaced)
        seconds = min(filter(None, (seconds, later)), default=None)
    return texts, seconds


class Recovery:
    """Recover the nodes of a task while a client leads; note what was done, a missing right once.

    Lost pods are left if `node_lost_after` is None.
    """

    def __init__(
        self,
        session: Session,
        leads: Callable[[], bool],
        note: Callable[[str], None],
        node_lost_after: timedelta | None,
    ) -> None:
        self._session = session
        self._leads = leads
        self._note = note
        self._node_lost_after = node_lost_after
        self._is_forbidden = False
        self._next_look = 0.0

    def __call__(self, task: TaskStatus) -> None:
        """Do what is due; called often, it looks every few seconds."""
        if self._is_forbidden or monotonic() < self._next_look:
            return
        if not needs_recovery(task) or not self._leads():
            return
        try:
            texts, seconds = recover(self._session, task, self._node_lost_after)
        except Forbidden as error:
            self._is_forbidden = True
            self._note(f"{task.name}: {error.what}; {_advise(task)}")
            return
        self._next_look = monotonic() + min(seconds or _LATER, _LATER)
        for text in texts:
            self._note(f"{task.name}: {text}")


def _advise(task: TaskStatus) -> str:
    """Return what to do for a node that may not be recovered."""
    for node in list_lost(task):
        return repair(node.host)
    return f"submit it again with --exclude-node {list_refused(task)[0].refused_by}"


def _describe_replaced(replaced: Sequence[NodeStatus]) -> list[str]:
    return [
        f"{node.name}: its pod on cluster node {node.host}, which does not respond, was removed"
        for node in replaced
    ]
