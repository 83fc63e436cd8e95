"""Read what tests write as dicts: as the product reads the answers of an API server.

What a test is not about is valid: a name, a uid and a time of creation.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kubectl_sky.cluster.encoding import decode
from kubectl_sky.observe.signals import ALL_PODS, TaskSnapshot, key_of
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod, PodSpec
from kubectl_sky.words.task_objects import TaskObject

Json = Mapping[str, Any]
T = TypeVar("T")

_METADATA = {"name": "any", "uid": "uid-any", "creationTimestamp": "2026-01-01T00:00:00Z"}
_KINDS = {key_of(kind): kind for kind in vars(kinds).values() if isinstance(kind, ReadKind)} | {
    kinds.GANG.resource: kinds.GANG,
    ALL_PODS: kinds.POD,
}


def read_as(shape: type[T], item: Json | T) -> T:
    """Return what the product reads of an object; one that was read stays as it is."""
    if isinstance(item, shape):
        return item
    assert isinstance(item, Mapping)
    metadata = _METADATA | dict(item.get("metadata") or {})
    owners = metadata.get("ownerReferences")
    if isinstance(owners, list):
        metadata["ownerReferences"] = [{"name": "any", "uid": "uid-any"} | it for it in owners]
    return decode(json.dumps({**item, "metadata": metadata}).encode(), shape)


def read(kind: ReadKind[T], item: Json | T) -> T:
    return read_as(kind.shape, item)


def read_all(kind: ReadKind[T], items: Iterable[Json | T]) -> list[T]:
    return [read(kind, item) for item in items]


def read_pod(item: Json | Pod) -> Pod:
    return read(kinds.POD, item)


def read_pods(items: Iterable[Json | Pod]) -> list[Pod]:
    return read_all(kinds.POD, items)


def read_spec(item: Json) -> PodSpec:
    """Return the spec of a pod."""
    return read_pod({"spec": item}).spec


def read_job(item: Json | TaskObject) -> TaskObject:
    """Return an object that runs a task, of its own kind."""
    if isinstance(item, TaskObject):
        return item
    kind: ReadKind[TaskObject] = _KINDS[item.get("kind", "Job")]
    return read(kind, item)


def read_jobs(items: Iterable[Json | TaskObject]) -> list[TaskObject]:
    return list(map(read_job, items))


def read_metadata(items: Iterable[Json | Object]) -> list[Object]:
    """Return objects of any kind, of which nothing but the metadata is read."""
    return [read_as(Object, item) for item in items]


def read_objects(
    items: Mapping[str, Iterable[Json | Object]],
) -> dict[str, tuple[Object, ...]]:
    """Return the objects of a snapshot."""
    return {key: tuple(read_all(_KINDS[key], values)) for key, values in items.items()}


def edit_pods(seen: TaskSnapshot, change: Callable[[dict[str, Any]], object]) -> TaskSnapshot:
    """Return a snapshot whose pods were changed, each as JSON."""
    pods = []
    for pod in seen.of(kinds.POD):
        item = msgspec.to_builtins(pod)
        for part in ("spec", "status"):
            item.setdefault(part, {})
        change(item)
        pods.append(item)
    return replace(seen, objects={**seen.objects, **read_objects({kinds.POD.kind: pods})})


def read_list(shape: type[T], items: Iterable[Json | T]) -> list[T]:
    return [read_as(shape, item) for item in items]
