"""What each node of a task requests, by the pod template of its object."""

from typing import Annotated

from msgspec import Struct

from kubectl_sky.plan.resources import ACCELERATORS
from kubectl_sky.words import bounded, names
from kubectl_sky.words.documents import Note, Part, always
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Object


class NodeResources(Part, frozen=True):
    """What each node of a task requests, as Kubernetes quantities. Fields not set are left out."""

    gpus: int = always(0)
    cpus: Annotated[str, Note("`4`, `500m`")] = ""
    memory: Annotated[str, Note("`16Gi`")] = ""
    accelerators: Annotated[str, Note("`A100:8`, `A100:1 or H100:1`")] = ""


class Requested(Struct, frozen=True):
    """The image and the sizes of a node; empty if they are not known."""

    image: str = ""
    resources: NodeResources = NodeResources()


def requested(item: Object) -> Requested:
    """Return what an object's nodes request: of several templates, the last one is the workers'."""
    try:
        containers = registry.of(item).templates(item)[-1]["spec"]["containers"]
        main = next(entry for entry in containers if entry.get("name") == names.CONTAINER)
        resources = main.get("resources") or {}
        sizes = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError):
        return Requested()  # the pod template in an AppWrapper may be anything

    device = next((name for name in ACCELERATORS if name in sizes), "")
    gpus = bounded.integer(sizes.get(device))

    annotations = item["metadata"].get("annotations") or {}
    accelerators = annotations.get(names.ACCELERATORS) or (f"{device}:{gpus}" if gpus else "")
    resources = NodeResources(
        gpus, str(sizes.get("cpu", "")), str(sizes.get("memory", "")), accelerators
    )
    return Requested(str(main.get("image") or ""), resources)
