"""The ReplicaSet controller: keeps as many pods as a ReplicaSet wants."""

from collections.abc import Iterator

from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.controller import (
    Controller,
    find_controller,
    owner_reference,
    record_event,
)
from kubectl_sky_practice.job_status import OVER, condition, phase, timestamp
from kubectl_sky_practice.problems import Problem
from kubectl_sky_practice.state import Change, Json, Key
from kubectl_sky_practice.state import key as key_of

STORAGE = "replicasets.apps"
_SOURCE = "replicaset-controller"
_RETRY_SECONDS = 2.0  # after a refused pod
_BATCH_SIZE = 500  # pods created or deleted at a time
_GENERATE_NAME_LENGTH = 58


class ReplicaSets(Controller):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.replay(STORAGE)

    def keys(self, change: Change) -> Iterator[Key]:
        if change.storage == STORAGE:
            yield change.key
        owner = find_controller(change.object, "ReplicaSet") if change.storage == "pods" else {}
        if owner:
            yield change.key[0], owner["name"]

    def reconcile(self, key: Key) -> float | None:
        replica_set = self.api.state.get(STORAGE, *key)
        if not replica_set or "deletionTimestamp" in replica_set["metadata"]:
            return None
        refusal = self._scale(replica_set)
        status = _status(replica_set, self._pods(replica_set), refusal)
        self.api.change(STORAGE, key, lambda item: item.update(status=status))
        return _RETRY_SECONDS if refusal else None

    def _pods(self, replica_set: Json) -> list[Json]:
        pods = [
            pod
            for pod in list_controlled(self.api, "pods", replica_set)
            if "deletionTimestamp" not in pod["metadata"] and phase(pod) not in OVER
        ]
        return sorted(pods, key=_rank)

    def _scale(self, replica_set: Json) -> str:
        """Create or delete pods; return why the API refused one."""
        pods = self._pods(replica_set)
        namespace = key_of(replica_set)[0]
        missing = replica_set["spec"]["replicas"] - len(pods)

        for pod in pods[: max(-missing, 0)][:_BATCH_SIZE]:
            self.api.delete("pods", key_of(pod))
            self._record(replica_set, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

        for _ in range(min(missing, _BATCH_SIZE)):
            try:
                pod = self.api.create("pods", _new_pod(replica_set), namespace)
            except Problem as problem:
                message = f"Error creating: {problem.message}"
                self._record(replica_set, "FailedCreate", message, "Warning")
                return problem.message
            self._record(replica_set, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        return ""

    def _record(self, obj: Json, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self.api, obj, _SOURCE, reason, message, kind)


def _rank(pod: Json) -> tuple[bool, bool, float]:
    created = timestamp(pod["metadata"]["creationTimestamp"])
    return bool(pod["spec"].get("nodeName")), bool(condition(pod, "Ready")), -created


def _status(replica_set: Json, pods: list[Json], refusal: str) -> Json:
    ready = sum(bool(condition(pod, "Ready")) for pod in pods)
    counts = {"fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
    status: Json = {"replicas": len(pods), **{key: count for key, count in counts.items() if count}}
    status["observedGeneration"] = replica_set["metadata"]["generation"]
    if refusal:
        old = condition(replica_set, "ReplicaFailure") or {"lastTransitionTime": now()}
        new = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
        status["conditions"] = [old | new | {"message": refusal}]
    return status


def _new_pod(replica_set: Json) -> Json:
    template = replica_set["spec"]["template"]
    name = f"{replica_set['metadata']['name']}-"[:_GENERATE_NAME_LENGTH]
    metadata = {**template["metadata"], "generateName": name}
    metadata["ownerReferences"] = [owner_reference(replica_set)]
    return {"metadata": metadata, "spec": template["spec"]}


def list_controlled(api: Api, storage: str, owner: Json) -> list[Json]:
    """Return the objects of a kind that an object controls, by its uid."""
    uid = owner["metadata"]["uid"]
    objects = api.state.all(storage, key_of(owner)[0])
    return [obj for obj in objects if find_controller(obj, owner["kind"]).get("uid") == uid]
