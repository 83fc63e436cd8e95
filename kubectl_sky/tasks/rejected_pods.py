"""Move Jobs away from cluster nodes that reject their pods.

A cluster node whose devices are broken looks free, and the scheduler chooses it for pod after pod.
Whoever leads the task suspends the Job for a moment, and lets it prefer other cluster nodes: the
affinity of a Job that has started can change only then, since Kubernetes 1.36. An annotation tells
whoever leads the task next that the Job is to be resumed.
"""

from collections.abc import Mapping
from contextlib import suppress

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, Invalid, NotFound, Refused
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds, names

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def list_rejected(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes whose Job is being moved, or is to be moved."""
    nodes = (node for node in task.nodes if not node.state.ended)
    return [node for node in nodes if node.leaving or node.rejected_by]


def move_rejected(session: Session, task: TaskStatus) -> tuple[list[str], bool]:
    """Do the next step for Jobs that are to be moved.

    Return the last steps, in lines, and whether there are further ones. Doing it twice is harmless.
    Raises Forbidden.
    """
    nodes = list_rejected(task)
    if not nodes:
        return [], False
    selector = names.selector({names.TASK_ID: task.id})
    items = objects.list_manifests(session, kinds.JOB, task.namespace, label_selector=selector)
    jobs = {item["metadata"]["name"]: item for item in items}

    def move(node: NodeStatus) -> str | None:
        with suppress(NotFound):  # the task was deleted meanwhile
            return _move(session, node, jobs[node.job])
        return ""

    existing = [node for node in nodes if node.job in jobs]
    texts = parallel.map_parallel(move, existing)
    return [text for text in texts if text], None in texts


def _move(session: Session, node: NodeStatus, job: Json) -> str | None:
    """Return what was done at the end; None if a further step follows, empty if none is due."""
    annotations = job["metadata"].get("annotations") or {}
    is_suspended = bool(job["spec"].get("suspend"))
    if host := annotations.get(names.LEAVES):
        if is_suspended and not _has_stopped(job):
            return None
        return _resume(session, node, job, host) if is_suspended else _end(session, job, host)
    if is_suspended or node.rejected_by in ("", *_read_left(annotations)):
        return ""
    begun = {"metadata": {"annotations": {names.LEAVES: node.rejected_by}}}
    _patch(session, job, begun | {"spec": {"suspend": True}})
    return None


def _resume(session: Session, node: NodeStatus, job: Json, host: str) -> str:
    spec = {"suspend": False, "template": {"spec": {"affinity": _avoid(host, job)}}}
    ended = {"metadata": {"annotations": _ended(job, host)}}
    try:
        _patch(session, job, ended | {"spec": spec})
    except (Invalid, Refused, Forbidden):  # before Kubernetes 1.36, or by a policy
        _patch(session, job, ended | {"spec": {"suspend": False}})
        advice = f"submit the task again with --exclude-node {host}"
        return f"{node.name}: cluster node {host} rejected two of its pods; {advice}"
    return f"{node.name}: cluster node {host} rejected two of its pods; others are preferred now"


def _end(session: Session, job: Json, host: str) -> str:
    """Note that somebody else has resumed the Job."""
    _patch(session, job, {"metadata": {"annotations": _ended(job, host)}})
    return ""


def _ended(job: Json, host: str) -> Mapping[str, str | None]:
    left = (*_read_left(job["metadata"]["annotations"]), host)
    return {names.LEAVES: None, names.LEFT: ",".join(dict.fromkeys(left))}


def _read_left(annotations: Mapping[str, str]) -> list[str]:
    return list(filter(None, annotations.get(names.LEFT, "").split(",")))


def _patch(session: Session, job: Json, body: Json) -> None:
    objects.patch_by_uid(session, kinds.JOB, job["metadata"], body)


def _has_stopped(job: Json) -> bool:
    status = job["status"]
    conditions = {item["type"]: item["status"] for item in status.get("conditions", ())}
    return conditions.get("Suspended") == "True" and not status.get("active")


def _avoid(host: str, job: Json) -> Json:
    """Return a preference for all other cluster nodes, as a merge patch of an affinity."""
    affinity = job["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    rule = {"key": "metadata.name", "operator": "NotIn", "values": [host]}
    others = {"weight": 100, "preference": {"matchFields": [rule]}}
    return {"nodeAffinity": {_PREFERRED: [*affinity.get(_PREFERRED, ()), others]}}
