"""What each node of a task requests, by the pod template of its object."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe.mounts import BucketMount, PvcMount, list_mounts
from kubectl_sky.plan.resources import ACCELERATORS
from kubectl_sky.spec.variables import RESERVED, mask
from kubectl_sky.words import bounded, names
from kubectl_sky.words.documents import Note, Part, always
from kubectl_sky.words.expansion import unescape
from kubectl_sky.words.pod_objects import Resources, TaskContainer
from kubectl_sky.words.secret import REDACTED
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry

_OUR_PREFIXES = ("SKYPILOT_", "KUBECTL_SKY_")


class NodeResources(Part, frozen=True):
    """What each node of a task requests, as Kubernetes quantities. Fields not set are left out."""

    gpus: int = always(0)
    cpus: Annotated[str, Note("`4`, `500m`")] = ""
    memory: Annotated[str, Note("`16Gi`")] = ""
    accelerators: Annotated[str, Note("`A100:8`, `A100:1 or H100:1`")] = ""


class Requested(Struct, frozen=True):
    """What is in the pod template of a node; empty if it is not known."""

    image: str = ""
    resources: NodeResources = NodeResources()
    mounts: tuple[PvcMount, ...] = ()
    envs: Mapping[str, str] = {}  # those of the task file that are not named like secrets


def requested(item: TaskObject) -> tuple[Requested, tuple[BucketMount, ...]]:
    """Return what an object's nodes request, and their buckets, whose pod templates have secrets.

    Of several templates, the last one is the workers'.
    """
    templates = registry.of(item).pod_templates(item)
    containers = templates[-1].spec.containers if templates else ()
    main = next((entry for entry in containers if entry.name == names.CONTAINER), None)
    if main is None:
        return Requested(), ()  # the pod template in an AppWrapper may be anything

    resources = main.resources or Resources()
    sizes = {**(resources.limits or {}), **(resources.requests or {})}
    device = next((name for name in ACCELERATORS if name in sizes), "")
    gpus = bounded.integer(sizes.get(device))

    annotations = item.metadata.annotations
    accelerators = annotations.get(names.ACCELERATORS) or (f"{device}:{gpus}" if gpus else "")
    requested_sizes = NodeResources(
        gpus, str(sizes.get("cpu", "")), str(sizes.get("memory", "")), accelerators
    )
    mounts = list(list_mounts(templates[-1], main))
    claims = tuple(mount for mount in mounts if isinstance(mount, PvcMount))
    buckets = tuple(mount for mount in mounts if isinstance(mount, BucketMount))
    return Requested(main.image, requested_sizes, claims, dict(_user_variables(main))), buckets


def _user_variables(container: TaskContainer) -> Iterator[tuple[str, str]]:
    for variable in container.env or ():
        name = variable.name
        is_ours = name in RESERVED or name.startswith(_OUR_PREFIXES)
        if variable.value is None or is_ours:
            continue
        shown = mask(name, unescape(variable.value))
        if shown != REDACTED:
            yield name, shown
