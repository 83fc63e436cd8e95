"""The table of backends, by name and by the objects that they created."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_sky.errors import UserError
from kubectl_sky.words import names
from kubectl_sky.words.decoding import read_manifest
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.scheduled_objects import PodGroup, VolcanoQueue
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads.appwrapper import AppWrapper
from kubectl_sky.workloads.arrays import ArrayJob
from kubectl_sky.workloads.indexed import Indexed
from kubectl_sky.workloads.jobs import Jobs
from kubectl_sky.workloads.jobset import JobSet
from kubectl_sky.workloads.mpijob import MPIJob
from kubectl_sky.workloads.rayservice import RayService
from kubectl_sky.workloads.service import Service
from kubectl_sky.workloads.volcano import Volcano
from kubectl_sky.workloads.workload import Manifest, Workload, field

# From plain Kubernetes on: `--backend auto` prefers the last one that it can use.
_ALL: tuple[Workload, ...] = (
    Jobs(),
    Indexed(),
    JobSet(),
    MPIJob(),
    AppWrapper(),
    Volcano(),
    ArrayJob(),
)
# Backends of `serve`, whose objects are no tasks.
_SERVICES: tuple[Workload, ...] = (Service(), RayService())
BACKENDS: dict[str, Workload] = {backend.name: backend for backend in (*_ALL, *_SERVICES)}
OWN_QUEUES = frozenset(backend.name for backend in _ALL if backend.queue_kind)
NAMED = tuple(backend.name for backend in _ALL if backend.selectable)
AUTOMATIC = tuple(backend.name for backend in reversed(_ALL) if backend.merit)  # best first

# The kinds of task objects, with what must be installed for those that need it.
KINDS: dict[ReadKind[TaskObject], str] = {
    backend.kind: backend.requires if backend.required_kind is backend.kind else ""
    for backend in _ALL
}
# Kinds of additional task objects, if installed.
COMPANION_KINDS: tuple[ReadKind[PodGroup], ...] = tuple(
    backend.companion_kind for backend in _ALL if backend.companion_kind
)
# What users can install for tasks, by the API group that shows that it is installed.
ADD_ONS: dict[str, str] = {
    backend.required_kind.group: backend.requires for backend in _ALL if backend.required_kind
}
QUEUE_KINDS: tuple[ReadKind[VolcanoQueue], ...] = tuple(
    backend.queue_kind for backend in _ALL if backend.queue_kind
)


def find(name: str) -> Workload:
    """Return the backend of this name. Raises UserError."""
    if name not in BACKENDS:
        raise UserError(f'backend "{name}" not found', f"choose one of: {', '.join(NAMED)}")
    return BACKENDS[name]


def of(item: Object) -> Workload:
    """Return the backend that created an object; the default is plain Jobs."""
    return _by_annotation(item.metadata.annotations)


def read(manifest: Manifest) -> TaskObject:
    """Return the object that a manifest of a backend describes."""
    return read_manifest(manifest, of_manifest(manifest).kind.shape)


def of_manifest(manifest: Manifest) -> Workload:
    """Return the backend that has rendered a manifest."""
    return _by_annotation(manifest["metadata"].get("annotations") or {})


def _by_annotation(annotations: Mapping[str, str]) -> Workload:
    backend = annotations.get(names.BACKEND, names.DEFAULT_BACKEND)
    return BACKENDS.get(backend, BACKENDS[names.DEFAULT_BACKEND])


def is_root_object(item: Object) -> bool:
    """Return whether an object is a task's own, not one that a controller created."""
    owners = item.metadata.owner_references
    return not any(owner.controller for owner in owners)


def is_suspended(manifest: Manifest) -> bool:
    return field(manifest, of_manifest(manifest).suspend_path) is True


def with_suspend_field(item: Manifest, other: Manifest) -> dict[str, Any]:
    """Return a manifest with the suspend field of another one.

    It stays unchanged if it is not suspended, or if the other one is.
    """
    if not is_suspended(item) or is_suspended(other):
        return dict(item)
    path = of_manifest(item).suspend_path
    return _with_field(item, path, field(other, path))


def _with_field(item: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    """Return an object with a changed field; None removes the field."""
    name, *rest = path
    content = _with_field(item[name], rest, value) if rest else value
    return {
        key: entry for key, entry in (dict(item) | {name: content}).items() if entry is not None
    }
