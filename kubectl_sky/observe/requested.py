"""What each node of a task requests, by the pod template of its object."""

from typing import TYPE_CHECKING

from msgspec import Struct

from kubectl_sky.plan.resources import ACCELERATORS
from kubectl_sky.words import bounded, names
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Object

if TYPE_CHECKING:
    from kubectl_sky.words import models


class Requested(Struct, frozen=True):
    """The image and the sizes of a node, as Kubernetes quantities; empty if they are not set."""

    image: str = ""
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    accelerators: str = ""  # A100:8

    def as_json(self) -> "models.NodeResources":
        """Return the sizes as JSON values; those that are not set are left out."""
        resources: models.NodeResources = {"gpus": self.gpus}
        if self.cpus:
            resources["cpus"] = self.cpus
        if self.memory:
            resources["memory"] = self.memory
        if self.accelerators:
            resources["accelerators"] = self.accelerators
        return resources


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
    return Requested(
        image=str(main.get("image") or ""),
        cpus=str(sizes.get("cpu", "")),
        memory=str(sizes.get("memory", "")),
        gpus=gpus,
        accelerators=annotations.get(names.ACCELERATORS) or (f"{device}:{gpus}" if gpus else ""),
    )
