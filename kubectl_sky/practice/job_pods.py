"""The pods of a Job: what a new one is, and which are too many."""

import copy

from kubectl_sky.practice import job_view
from kubectl_sky.practice.job_view import FAILURES, FINALIZER, IGNORED, INDEX, View
from kubectl_sky.practice.state import Json

_NAME = 58  # letters of a generated name before its random ones


def surplus(view: View, least: int) -> list[Json]:
    """Return active pods that are too many, or whose index is no more or taken twice."""
    wrong, right = [], {}
    for pod in view.active if view.indexed else ():
        one = job_view.index(pod)
        if one in right or not 0 <= one < view.spec["completions"]:
            wrong.append(pod)
        else:
            right[one] = pod
    others = list(right.values()) if view.indexed else list(view.active)
    order = ("Pending", "Unknown", "Running")
    others.sort(
        key=lambda pod: (bool(pod["spec"].get("nodeName")), order.index(job_view.phase(pod)))
    )
    return wrong + others[: max(0, least - len(wrong))]


def new(view: View, index: int) -> Json:
    """Return a new pod of a Job, with its index if that is not -1."""
    job, spec = view.job["metadata"], view.spec
    template = spec["template"]
    metadata: Json = {
        "generateName": f"{job['name']}-"[:_NAME],
        "labels": template["metadata"].get("labels") or {},
        "annotations": template["metadata"].get("annotations") or {},
        "finalizers": [*(template["metadata"].get("finalizers") or ()), FINALIZER],
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["name"], "uid": job["uid"]}
    metadata["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    if index == -1:
        if not metadata["annotations"]:
            del metadata["annotations"]
        return {"metadata": metadata, "spec": template["spec"]}
    end = f"-{index}-"
    metadata["generateName"] = job["name"][: _NAME - len(end)] + end
    metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
    metadata["annotations"] = {**metadata["annotations"], INDEX: str(index), **_told(view, index)}
    pod = copy.deepcopy(template["spec"])
    pod["hostname"] = f"{job['name']}-{index}"
    for container in [*(pod.get("initContainers") or ()), *pod["containers"]]:
        variables = container.setdefault("env", [])
        if not any(one["name"] == "JOB_COMPLETION_INDEX" for one in variables):
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return {"metadata": metadata, "spec": pod}


def _told(view: View, index: int) -> dict[str, str]:
    """Return the annotations that tell a pod how often its index failed."""
    if view.spec.get("backoffLimitPerIndex") is None:
        return {}
    last = view.awaited.get(index)
    counts = {FAILURES: 0, IGNORED: 0}
    if last:
        counts = {name: job_view.failures(last, name) for name in counts}
        counts[IGNORED if view.judge(last)[0] == "Ignore" else FAILURES] += 1
    return {name: str(count) for name, count in counts.items() if count or name == FAILURES}
