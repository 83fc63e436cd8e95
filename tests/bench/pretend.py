"""Tasks as many as one likes: their objects, of which no controller knows."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind

Json = dict[str, Any]

_CONNECTIONS = 16
_TIME = "2026-01-01T00:00:00Z"
_DONE: Json = {
    "succeeded": 1,
    "startTime": _TIME,
    "completionTime": _TIME,
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": _TIME, "lastProbeTime": _TIME}
        for kind in ("SuccessCriteriaMet", "Complete")
    ],
}
_RUNNING = {"active": 1, "ready": 1, "startTime": _TIME}
_TERMINATED = {"exitCode": 0, "reason": "Completed", "startedAt": _TIME, "finishedAt": _TIME}


def tasks(
    session: Session,
    job: Json,
    namespace: str,
    numbers: Sequence[int],
    node: Callable[[int], str] | None = None,
) -> None:
    """Make tasks of one Job each, as a rendered one, and their pods, with the ids b0000000 and on.

    Neither the Job controller nor the scheduler takes them. They have ended; with `node`, which
    names the cluster node of each or none, they run there or wait, and have an event.
    """
    text = json.dumps(job)
    known = job["metadata"]["labels"]["task-id"]

    def make(number: int) -> None:
        mine = json.loads(text.replace(known, f"b{number:07d}"))
        mine["metadata"]["namespace"] = namespace
        mine["spec"]["managedBy"] = "example.com/nobody"
        made = objects.create(session, mine)
        _set_status(session, kinds.JOB, made, _RUNNING if node else _DONE)
        pod = _pod(made)
        if node:
            pod["spec"]["nodeName"] = node(number)
            created = objects.create(session, pod)
            objects.create(session, _event(created))
        else:
            created = objects.create(session, pod)
            _set_status(session, kinds.POD, created, _ended(created))

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(make, numbers))


def queued(session: Session, job: Json, numbers: Sequence[int]) -> None:
    """Make Jobs as a rendered one, with the ids b0000000 and on, which their queue has to admit."""
    text, known = json.dumps(job), job["metadata"]["labels"]["task-id"]

    def make(number: int) -> None:
        objects.create(session, json.loads(text.replace(known, f"b{number:07d}")))

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(make, numbers))


def _pod(job: Json) -> Json:
    template, metadata = job["spec"]["template"], job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **template["metadata"],
            "name": f"{metadata['name']}-abcde",
            "namespace": metadata["namespace"],
            "ownerReferences": [{**owner, "name": metadata["name"], "uid": metadata["uid"]}],
        },
        "spec": {**template["spec"], "schedulerName": "nobody"},
    }


def _event(pod: Json) -> Json:
    metadata = pod["metadata"]
    identity = {field: metadata[field] for field in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "involvedObject": {"kind": "Pod", "apiVersion": "v1", **identity},
        "reason": "Started",
        "message": "Started container main",
        "type": "Normal",
        "firstTimestamp": _TIME,
        "lastTimestamp": _TIME,
        "count": 1,
    }


def _ended(pod: Json) -> Json:
    (container,) = pod["spec"]["containers"]
    ended = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": _TERMINATED},
    }
    return {"phase": "Succeeded", "startTime": _TIME, "containerStatuses": [ended]}


def _set_status(session: Session, kind: Kind, item: Json, status: Json) -> None:
    metadata = item["metadata"]
    path = objects.path(kind, metadata["namespace"], metadata["name"], "status")
    content = "application/merge-patch+json"
    session.send("PATCH", path, body={"status": status}, headers={"Content-Type": content})
