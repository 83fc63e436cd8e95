"""Create, change and delete objects: for requests, controllers and the node."""

import copy
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from kubectl_sky_practice import admission, defaults, problems, validation
from kubectl_sky_practice.resources import Json, Resource, Resources
from kubectl_sky_practice.state import Key, State

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_INITIAL_STATUS: dict[str, Json] = {
    "pods": {"phase": "Pending"},
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
}
# built-in kinds that have a generation
_WITH_GENERATION = (
    "pods",
    "jobs.batch",
    "deployments.apps",
    "replicasets.apps",
)
_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
_FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True)
class Deletion:
    """DeleteOptions: propagation, grace period in seconds, preconditions, dry run."""

    propagation: str = "Background"
    grace: int | None = None
    preconditions: Json = field(default_factory=dict)
    dry_run: bool = False


def random_suffix() -> str:
    return "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """The objects with their rules. All methods run in the thread of the event loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = State(folder / "state.db")
        self.resources = Resources()
        self.recent_events: dict[tuple[str, str, str], str] = {}  # names, by their content
        for definition in self.state.all("customresourcedefinitions.apiextensions.k8s.io"):
            self.resources.define(definition)

    def claim_folder(self, volume: str) -> Path:
        return self.folder / "volumes" / volume

    def create(
        self, storage: str, body: Json, namespace: str = "", *, dry_run: bool = False
    ) -> Json:
        """Create an object of a controller; return it as stored. Raises Problem."""
        resource = self.resources.stored(storage)
        return self.add(resource, copy.deepcopy(body), namespace, dry_run=dry_run, trusted=True)

    def add(
        self,
        resource: Resource,
        obj: Json,
        namespace: str,
        *,
        dry_run: bool = False,
        trusted: bool = False,
    ) -> Json:
        """Create an object; the caller must not change it any more. Raises Problem.

        A trusted object is not checked against the schema of its kind, which takes milliseconds.
        """
        metadata = obj.setdefault("metadata", {})
        obj["apiVersion"] = resource.api_version
        obj["kind"] = resource.kind
        for name in (*_SERVER_FIELDS, "resourceVersion"):
            metadata.pop(name, None)

        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = metadata["generateName"] + random_suffix()
        if not metadata.get("name"):
            cause = validation.required("metadata.name")
            raise problems.invalid(resource.qualified_kind, "", [cause])

        if resource.namespaced:
            metadata["namespace"] = namespace
            self._check_namespace(resource, metadata["name"], namespace)

        metadata |= {"uid": str(uuid4()), "creationTimestamp": now()}
        if resource.custom or resource.storage in _WITH_GENERATION:
            metadata["generation"] = 1

        _set_status(resource, obj)
        defaults.fill(resource.storage, obj)
        validation.check(obj, resource, schema=not trusted)
        admission.admit(self.state, resource.storage, obj)

        if self.state.get(resource.storage, metadata.get("namespace", ""), metadata["name"]):
            raise problems.exists(resource.storage, metadata["name"])
        return obj if dry_run else self._stored(resource.storage, obj)

    def change(self, storage: str, key: Key, edit: Callable[[Json], object]) -> Json | None:
        """Edit a copy of an object and store it; None if the object does not exist."""
        old = self.state.get(storage, *key)
        if old is None:
            return None
        new = copy.deepcopy(old)
        edit(new)
        return old if new == old else self.store(storage, old, new)

    def store(self, storage: str, old: Json, new: Json) -> Json:
        """Store a new version of an object; remove it if its last finalizer is gone."""
        metadata = new["metadata"]
        if "generation" in metadata and _desired(new) != _desired(old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        if "deletionTimestamp" in metadata and not _blocked(storage, new):
            return self.state.drop(storage, new)
        return self._stored(storage, new)

    def delete(self, storage: str, key: Key, deletion: Deletion = Deletion()) -> Json:
        """Delete an object, or mark it as deleted; return its last version. Raises Problem."""
        old = self.state.get(storage, *key)
        if old is None:
            raise problems.not_found(storage, key[1])
        _check_preconditions(storage, old, deletion.preconditions)
        new = copy.deepcopy(old)
        _mark_deleted(new, deletion.propagation, _grace(storage, old, deletion.grace))
        if storage == "namespaces":
            new.setdefault("status", {})["phase"] = "Terminating"
        if deletion.dry_run or new == old:
            return new
        if not _blocked(storage, new):
            return self.state.drop(storage, new)
        return self._stored(storage, new)

    def _stored(self, storage: str, obj: Json) -> Json:
        if storage == "customresourcedefinitions.apiextensions.k8s.io":
            self.resources.define(obj)
        return self.state.put(storage, obj)

    def _check_namespace(self, resource: Resource, name: str, namespace: str) -> None:
        existing = self.state.get("namespaces", "", namespace)
        if not existing:
            raise problems.not_found("namespaces", namespace)
        if "deletionTimestamp" in existing["metadata"]:
            message = f"unable to create new content in namespace {namespace}"
            message += " because it is being terminated"
            raise problems.forbidden(resource.storage, name, message)


def _set_status(resource: Resource, obj: Json) -> None:
    if resource.status:
        obj.pop("status", None)
    if resource.storage in _INITIAL_STATUS:
        obj["status"] = dict(_INITIAL_STATUS[resource.storage])
    elif resource.status and not resource.custom:
        obj["status"] = {}


def _check_preconditions(storage: str, obj: Json, preconditions: Json) -> None:
    for field_name, value in preconditions.items():
        if value and value != obj["metadata"].get(field_name):
            message = f"the precondition {field_name} {value} does not hold"
            raise problems.conflict(storage, obj["metadata"]["name"], message)


def _mark_deleted(obj: Json, propagation: str, grace: int) -> None:
    metadata = obj["metadata"]
    existing = metadata.pop("finalizers", None) or ()
    finalizers = [name for name in existing if name != _FOREGROUND]
    if propagation == "Foreground":
        finalizers.append(_FOREGROUND)
    if finalizers:
        metadata["finalizers"] = finalizers
    sooner = grace < metadata.get("deletionGracePeriodSeconds", 0)
    if "deletionTimestamp" not in metadata or sooner:
        ends = datetime.fromtimestamp(datetime.now(UTC).timestamp() + grace, UTC)
        metadata["deletionTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            metadata["generation"] += 1


def _grace(storage: str, obj: Json, requested: int | None) -> int:
    """Return the grace period: only running pods have one."""
    if storage != "pods" or not obj["spec"].get("nodeName"):
        return 0
    if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    default = int(obj["spec"].get("terminationGracePeriodSeconds", 30))
    return default if requested is None else requested


def _desired(obj: Json) -> Json:
    """Return the spec without the node that the scheduler sets."""
    return {**(obj.get("spec") or {}), "nodeName": ""}


def _blocked(storage: str, obj: Json) -> bool:
    """Say whether an object cannot be removed yet: finalizers, or a grace period."""
    metadata = obj["metadata"]
    if metadata.get("finalizers") or (storage == "namespaces" and obj["spec"].get("finalizers")):
        return True
    return storage == "pods" and metadata.get("deletionGracePeriodSeconds", 0) > 0
