"""The task: what this version carries out of a valid document, as values.

What it does not read is listed in schemas/unsupported.yaml.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubectl_sky.spec import quantity
from kubectl_sky.spec.accelerator import Accelerator, candidates
from kubectl_sky.spec.document import Data, Document
from kubectl_sky.spec.substitute import Filled

__all__ = ["Accelerator", "Resources", "Task", "VolumeMount", "image_of", "task_of"]


@dataclass(frozen=True)
class VolumeMount:
    """A volume, or a part of it, at an absolute path. `name` is a volume's, else a claim's own."""

    path: str
    name: str
    sub_path: str | None = None


@dataclass(frozen=True)
class Resources:
    """What each node needs; sizes are Kubernetes quantities, None leaves it to the cluster."""

    cpus: str | None = None
    memory: str | None = None
    accelerator: Accelerator | None = None
    image: str | None = None


@dataclass(frozen=True)
class Task:
    """One task. A variable or secret that is None has to be given on the command line."""

    name: str | None = None
    num_nodes: int = 1
    resources: Resources = field(default_factory=Resources)
    envs: Mapping[str, str | None] = field(default_factory=dict)
    secrets: Mapping[str, str | None] = field(default_factory=dict)
    volumes: tuple[VolumeMount, ...] = ()
    setup: str | None = None
    run: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def task_of(document: Document) -> Task:
    """Return the task of a document that `validate` finds no error in and `refusals` nothing."""
    data = Filled(document).document.data
    resources = data.get("resources") or {}
    return Task(
        name=data.get("name"),
        num_nodes=data.get("num_nodes") or 1,
        resources=_resources(resources),
        envs=_texts(data.get("envs")),
        secrets=_texts(data.get("secrets")),
        volumes=tuple(_volume(path, value) for path, value in (data.get("volumes") or {}).items()),
        setup=data.get("setup"),
        run=data.get("run"),
        labels=dict(resources.get("labels") or {}),
    )


def image_of(value: str | None) -> str | None:
    """Return the container image; SkyPilot writes `docker:` before it."""
    return value.removeprefix("docker:") if value else None


def text_of(value: Data) -> str | None:
    """Return a variable's value as SkyPilot gives it to the task: 10 is "10", yes is "True"."""
    return None if value is None else str(value)


def _texts(values: Mapping[Any, Any] | None) -> dict[str, str | None]:
    return {str(name): text_of(value) for name, value in (values or {}).items()}


def _resources(values: Mapping[str, Any]) -> Resources:
    cpus, memory, image = values.get("cpus"), values.get("memory"), values.get("image_id")
    accelerators = values.get("accelerators", values.get("gpus"))
    return Resources(
        cpus=None if cpus is None else quantity.cpus(cpus),
        memory=None if memory is None else quantity.memory(memory),
        accelerator=None if accelerators is None else candidates(accelerators)[0].whole,
        image=image_of(image),
    )


def _volume(path: str, value: str | Mapping[str, Any]) -> VolumeMount:
    if isinstance(value, str):
        return VolumeMount(path, value)
    return VolumeMount(path, value["name"], value.get("sub_path"))
