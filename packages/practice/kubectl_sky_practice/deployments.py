"""The Deployment controller: a ReplicaSet for each version, and rolling updates between them."""

import copy
import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence

from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.controller import (
    Controller,
    find_controller,
    owner_reference,
    record_event,
)
from kubectl_sky_practice.job_status import condition, timestamp
from kubectl_sky_practice.replicasets import STORAGE as _SETS
from kubectl_sky_practice.replicasets import list_controlled
from kubectl_sky_practice.state import Change, Json, Key
from kubectl_sky_practice.state import key as key_of

_DEPLOYMENTS = "deployments.apps"
_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_COMPLETE = "NewReplicaSetAvailable"
_TOO_LATE = "ProgressDeadlineExceeded"


class Deployments(Controller):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.replay(_DEPLOYMENTS)

    def keys(self, change: Change) -> Iterator[Key]:
        if change.storage == _DEPLOYMENTS:
            yield change.key
        owner = find_controller(change.object, "Deployment") if change.storage == _SETS else {}
        if owner:
            yield change.key[0], owner["name"]

    def reconcile(self, key: Key) -> float | None:
        deployment = self.api.state.get(_DEPLOYMENTS, *key)
        if not deployment or "deletionTimestamp" in deployment["metadata"]:
            return None
        current = self._current(deployment)
        old = [item for item in self._sets(deployment) if key_of(item) != key_of(current)]
        for item, replicas in _step(deployment["spec"], current, old):
            self._scale(deployment, item, replicas)
        for item in old[: max(len(old) - deployment["spec"]["revisionHistoryLimit"], 0)]:
            if not item["spec"]["replicas"] and not item["status"].get("replicas"):
                self.api.delete(_SETS, key_of(item))
        status = _status(deployment, current, old)
        self.api.change(_DEPLOYMENTS, key, lambda item: item.update(status=status))
        return _time_left(deployment["spec"], status)

    def _sets(self, deployment: Json) -> list[Json]:
        return sorted(list_controlled(self.api, _SETS, deployment), key=_revision)

    def _current(self, deployment: Json) -> Json:
        sets = self._sets(deployment)
        template = deployment["spec"]["template"]
        current = next((item for item in sets if _template(item) == template), None)
        newest = max((_revision(item) for item in sets if item is not current), default=0)
        if not current:
            current = self.api.create(_SETS, _new_set(deployment), key_of(deployment)[0])
        # `kubectl rollout undo` restores the annotations of a version from its ReplicaSet
        annotations = {**(deployment["metadata"].get("annotations") or {})}
        annotations[_REVISION] = str(max(_revision(current), newest + 1))

        def annotate(obj: Json) -> None:
            obj["metadata"]["annotations"] = annotations

        self.api.change(_DEPLOYMENTS, key_of(deployment), annotate)
        return self.api.change(_SETS, key_of(current), annotate) or current

    def _scale(self, deployment: Json, item: Json, replicas: int) -> None:
        name = item["metadata"]["name"]
        before = item["spec"]["replicas"]
        self.api.change(_SETS, key_of(item), lambda it: it["spec"].update(replicas=replicas))
        word = "up" if replicas > before else "down"
        message = f"Scaled {word} replica set {name} from {before} to {replicas}"
        record_event(self.api, deployment, "deployment-controller", "ScalingReplicaSet", message)


def _revision(obj: Json) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(_REVISION, 0))


def _template(replica_set: Json) -> Json:
    template: Json = copy.deepcopy(replica_set["spec"]["template"])
    template["metadata"]["labels"].pop(_HASH, None)
    return template


def _new_set(deployment: Json) -> Json:
    name = deployment["metadata"]["name"]
    spec = deployment["spec"]
    template = copy.deepcopy(spec["template"])
    text = json.dumps(template, sort_keys=True).encode()
    labels = template["metadata"]["labels"]
    labels[_HASH] = hashlib.sha256(text).hexdigest()[:10]
    selector = copy.deepcopy(spec["selector"])
    selector.setdefault("matchLabels", {})[_HASH] = labels[_HASH]
    owners = [owner_reference(deployment)]
    metadata = {"name": f"{name}-{labels[_HASH]}", "labels": labels, "ownerReferences": owners}
    return {
        "metadata": metadata,
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


def _step(spec: Json, current: Json, old: Sequence[Json]) -> Iterator[tuple[Json, int]]:
    """Yield the ReplicaSets to scale in the next step of a rolling update, and their new sizes."""
    wanted = spec["replicas"]
    size = current["spec"]["replicas"]
    surge, unavailable = _limits(spec)
    total = size + sum(item["spec"]["replicas"] for item in old)

    grown = min(wanted, size + max(wanted + surge - total, 0))
    new_size = grown if size < wanted else wanted
    if new_size != size:
        yield current, new_size
        return

    starting = size - min(_available(current), size)
    removable = max(total - (wanted - unavailable) - starting, 0)
    for item in sorted(old, key=lambda item: _available(item) > 0):  # the broken versions first
        left = max(item["spec"]["replicas"] - removable, 0)
        removable -= item["spec"]["replicas"] - left
        if left != item["spec"]["replicas"]:
            yield item, left


def _available(replica_set: Json) -> int:
    return int(replica_set["status"].get("availableReplicas", 0))


def _limits(spec: Json) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable in pods; they are not both 0."""
    rolling = spec["strategy"]["rollingUpdate"]

    def pods(amount: int | str) -> float:
        text = str(amount)
        return spec["replicas"] * int(text[:-1]) / 100 if text.endswith("%") else int(text)

    surge = math.ceil(pods(rolling["maxSurge"]))
    unavailable = int(pods(rolling["maxUnavailable"]))
    return surge, unavailable or int(not surge)


def _status(deployment: Json, current: Json, old: Sequence[Json]) -> Json:
    sets = (current, *old)
    counts = {
        field: sum(item["status"].get(field, 0) for item in sets)
        for field in ("replicas", "readyReplicas", "availableReplicas")
    }
    counts["updatedReplicas"] = current["status"].get("replicas", 0)
    size = sum(item["spec"]["replicas"] for item in sets)
    counts["unavailableReplicas"] = max(size - counts["availableReplicas"], 0)

    least = deployment["spec"]["replicas"] - _limits(deployment["spec"])[1]
    enough = counts["availableReplicas"] >= least
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    is_new = _revision(deployment) != _revision(current)

    failures = [condition(item, "ReplicaFailure") for item in sets]
    conditions = [
        _condition(deployment, "Available", enough, reason),
        _progress(deployment, counts, is_new=is_new or not deployment["status"]),
        *({**item, "lastUpdateTime": item["lastTransitionTime"]} for item in failures if item),
    ]

    generation = {"observedGeneration": deployment["metadata"]["generation"]}
    present = {field: count for field, count in counts.items() if count}
    return generation | present | {"conditions": conditions}


def _progress(deployment: Json, counts: dict[str, int], *, is_new: bool) -> Json:
    spec = deployment["spec"]
    before = deployment["status"]
    if is_new:
        return _condition(deployment, "Progressing", True, "NewReplicaSetCreated")

    (old,) = (item for item in before["conditions"] if item["type"] == "Progressing")
    total = counts["replicas"]
    updated = counts["updatedReplicas"]
    if old["reason"] == _COMPLETE and total == updated:
        return dict(old)
    if total == updated == counts["availableReplicas"] == spec["replicas"]:
        return _condition(deployment, "Progressing", True, _COMPLETE)

    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    fewer_old = total - updated < before.get("replicas", 0) - before.get("updatedReplicas", 0)
    if fewer_old or any(counts[field] > before.get(field, 0) for field in fields):
        return _condition(deployment, "Progressing", True, "ReplicaSetUpdated")
    if (_time_left(spec, before) or 1) <= 0:
        return _condition(deployment, "Progressing", False, _TOO_LATE)
    return dict(old)


def _time_left(spec: Json, status: Json) -> float | None:
    """Return the seconds until an update has failed; None if it has finished."""
    (progress,) = (item for item in status["conditions"] if item["type"] == "Progressing")
    if progress["reason"] in (_COMPLETE, _TOO_LATE):
        return None
    updated = timestamp(progress["lastUpdateTime"])
    return updated + float(spec["progressDeadlineSeconds"]) - time.time()


def _condition(deployment: Json, kind: str, holds: bool, reason: str) -> Json:
    conditions = deployment["status"].get("conditions") or ()
    status = str(holds)
    old: Json = next((item for item in conditions if item["type"] == kind), {})
    unchanged = old.get("status") == status
    if kind == "Available" and unchanged:
        return old
    changed = old["lastTransitionTime"] if unchanged else now()
    times = {"lastUpdateTime": now(), "lastTransitionTime": changed}
    return {"type": kind, "status": status, "reason": reason, **times}
