"""What may be done with objects, and what follows: for requests, controllers and the node."""

import copy
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from kubectl_sky.practice import defaults, problems, quota, validation
from kubectl_sky.practice.resources import Json, Resource, Resources
from kubectl_sky.practice.state import Key, State

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_BEGINNING: dict[str, Json] = {
    "pods": {"phase": "Pending"},
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
}
# Those whose spec is counted; the others have no generation.
_COUNTED = (
    "pods",
    "jobs.batch",
    "ingresses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
)
_OWN = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True)
class Deletion:
    """How to delete: what becomes of dependents, how long pods may take, and which object."""

    propagation: str = "Background"
    grace: int | None = None
    preconditions: Json = field(default_factory=dict)
    dry_run: bool = False


def random_suffix() -> str:
    """Return five characters as the real server makes them up."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


def now() -> str:
    """Return the time as objects have it, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """The objects with their rules. Everything happens at once, in the thread of the event loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = State(folder / "state.db")
        self.resources = Resources()
        self.told: dict[tuple[str, str, str], str] = {}  # events: what they tell, and their names
        for definition in self.state.all("customresourcedefinitions.apiextensions.k8s.io"):
            self.resources.define(definition)

    def create(
        self, storage: str, body: Json, namespace: str = "", *, dry_run: bool = False
    ) -> Json:
        """Create an object; return it as stored. Raises Problem."""
        resource = self.resources.stored(storage)
        return self.add(resource, copy.deepcopy(body), namespace, dry_run=dry_run)

    def add(self, resource: Resource, obj: Json, namespace: str, *, dry_run: bool) -> Json:
        """Create an object, which belongs to the state from then on. Raises Problem."""
        metadata = obj.setdefault("metadata", {})
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        for name in (*_OWN, "resourceVersion"):
            metadata.pop(name, None)
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = metadata["generateName"] + random_suffix()
        if not metadata.get("name"):
            cause = problems.Cause(
                "FieldValueRequired",
                "metadata.name",
                "Required value: name or generateName is required",
            )
            raise problems.invalid(resource.qualified_kind, "", [cause])
        if resource.namespaced:
            metadata["namespace"] = namespace
            self._check_namespace(resource, metadata["name"], namespace)
        metadata |= {"uid": str(uuid4()), "creationTimestamp": now()}
        if resource.custom or resource.storage in _COUNTED:
            metadata["generation"] = 1
        self._begin(resource, obj)
        defaults.fill(resource.storage, obj)
        validation.check(obj, resource)
        quota.check(self.state, resource.storage, obj)
        if self.state.get(resource.storage, metadata.get("namespace", ""), metadata["name"]):
            raise problems.exists(resource.storage, metadata["name"])
        return obj if dry_run else self._stored(resource.storage, obj)

    def change(self, storage: str, key: Key, edit: Callable[[Json], object]) -> Json | None:
        """Let `edit` change a copy, and store it if it differs; None if there is no such object."""
        old = self.state.get(storage, *key)
        if old is None:
            return None
        new = copy.deepcopy(old)
        edit(new)
        return old if new == old else self.store(storage, old, new)

    def store(self, storage: str, old: Json, new: Json) -> Json:
        """Store a new version of an object; remove it where this was what it waited for."""
        metadata = new["metadata"]
        if "generation" in metadata and _asked(new) != _asked(old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        if "deletionTimestamp" in metadata and not _awaited(storage, new):
            return self.state.drop(storage, new)
        return self._stored(storage, new)

    def delete(self, storage: str, key: Key, deletion: Deletion = Deletion()) -> Json:
        """Begin to delete an object, or delete it; return it as it was left. Raises Problem."""
        old = self.state.get(storage, *key)
        if old is None:
            raise problems.not_found(storage, key[1])
        _check_preconditions(storage, old, deletion.preconditions)
        new = copy.deepcopy(old)
        _mark(new, deletion.propagation, _grace(storage, old, deletion.grace))
        if storage == "namespaces":
            new.setdefault("status", {})["phase"] = "Terminating"
        if deletion.dry_run or new == old:
            return new
        if not _awaited(storage, new):
            return self.state.drop(storage, new)
        return self._stored(storage, new)

    def _stored(self, storage: str, obj: Json) -> Json:
        if storage == "customresourcedefinitions.apiextensions.k8s.io":
            self.resources.define(obj)
        return self.state.put(storage, obj)

    def _check_namespace(self, resource: Resource, name: str, namespace: str) -> None:
        found = self.state.get("namespaces", "", namespace)
        if not found:
            raise problems.not_found("namespaces", namespace)
        if "deletionTimestamp" in found["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being"
            raise problems.forbidden(resource.storage, name, f"{why} terminated")

    def _begin(self, resource: Resource, obj: Json) -> None:
        """Let an object begin without a past."""
        if resource.status:
            obj.pop("status", None)
        if resource.storage in _BEGINNING:
            obj["status"] = dict(_BEGINNING[resource.storage])
        elif resource.status and not resource.custom:
            obj["status"] = {}


def _check_preconditions(storage: str, obj: Json, preconditions: Json) -> None:
    for name, wanted in preconditions.items():
        if wanted and wanted != obj["metadata"].get(name):
            label = "UID" if name == "uid" else "ResourceVersion"
            why = f"the {label} in the precondition ({wanted}) does not match the {label} in record"
            why += f" ({obj['metadata'].get(name)}). The object might have been deleted and then"
            raise problems.conflict(storage, obj["metadata"]["name"], f"{why} recreated")


def _mark(obj: Json, propagation: str, grace: int) -> None:
    """Note in an object that it is being deleted, how, and when at the latest."""
    metadata = obj["metadata"]
    ours = _FINALIZERS.values()
    finalizers = [one for one in metadata.pop("finalizers", None) or () if one not in ours]
    if propagation in _FINALIZERS:
        finalizers.append(_FINALIZERS[propagation])
    if finalizers:
        metadata["finalizers"] = finalizers
    sooner = grace < metadata.get("deletionGracePeriodSeconds", 0)
    if "deletionTimestamp" not in metadata or sooner:
        ends = datetime.fromtimestamp(datetime.now(UTC).timestamp() + grace, UTC)
        metadata["deletionTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            metadata["generation"] += 1


def _grace(storage: str, obj: Json, asked: int | None) -> int:
    """Only pods get time to end, and only those that a node runs."""
    if storage != "pods" or not obj["spec"].get("nodeName"):
        return 0
    if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(obj["spec"].get("terminationGracePeriodSeconds", 30)) if asked is None else asked


def _asked(obj: Json) -> Json:
    """Return what somebody asked for; the node that a pod was given is not of it."""
    return {**(obj.get("spec") or {}), "nodeName": ""}


def _awaited(storage: str, obj: Json) -> bool:
    """Say whether an object that is being deleted waits for somebody."""
    metadata = obj["metadata"]
    if metadata.get("finalizers") or (storage == "namespaces" and obj["spec"].get("finalizers")):
        return True
    return storage == "pods" and metadata.get("deletionGracePeriodSeconds", 0) > 0
