"""The task: what this version carries out of a valid document, as values.

What it does not read is listed in schemas/unsupported.yaml.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubectl_sky.secret import Secret
from kubectl_sky.spec import infra, machine, ports, quantity
from kubectl_sky.spec.accelerator import Accelerator, candidates
from kubectl_sky.spec.arrays import Array
from kubectl_sky.spec.buckets import Bucket, buckets_of
from kubectl_sky.spec.document import Data, Document, Path
from kubectl_sky.spec.files import LocalFiles, Repository, local_files, repository
from kubectl_sky.spec.kubernetes import Kubernetes, kubernetes_of
from kubectl_sky.spec.recovery import Recovery, recovery
from kubectl_sky.spec.secret import KeptSecret, kept, without_kept
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.spec.volume import VolumeMount, mount_of

__all__ = [
    "Accelerator",
    "Kubernetes",
    "Recovery",
    "Resources",
    "Task",
    "VolumeMount",
    "image_of",
    "task_of",
]


@dataclass(frozen=True)
class Resources:
    """What each node needs; sizes are Kubernetes quantities, None leaves it to the cluster.

    `linger` is the seconds after which what has ended is deleted, `context` one of the kubeconfig.
    `ports` are those that others connect to, each once and in order. `fast` is the best network.
    """

    cpus: str | None = None
    memory: str | None = None
    accelerator: Accelerator | None = None
    image: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    disk: str | None = None
    spot: bool = False
    priority: int | None = None
    priority_class: str | None = None
    linger: int | None = None
    recovery: Recovery | None = None
    context: str | None = None
    ports: tuple[int, ...] = ()
    fast: bool = False


@dataclass(frozen=True)
class Task:
    """One task. A variable or secret that is None has to be given on the command line.

    `kept_secrets` are in the cluster already. `choices` are the candidates beside `resources`,
    which is the first; `ordered` says that their order matters. `backend` is how it runs; None
    leaves it to the settings; `array` are the numbers where it is many tasks of one node.
    `expose` is how its ports are reached; None leaves that to `kubernetes` and the settings.
    """

    name: str | None = None
    num_nodes: int = 1
    resources: Resources = field(default_factory=Resources)
    envs: Mapping[str, str | None] = field(default_factory=dict)
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)
    kept_secrets: tuple[KeptSecret, ...] = ()
    volumes: tuple[VolumeMount, ...] = ()
    files: tuple[LocalFiles, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    repository: Repository | None = None
    setup: str | None = None
    run: str | None = None
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    choices: tuple[Resources, ...] = ()
    ordered: bool = False
    backend: str | None = None
    array: Array | None = None
    expose: str | None = None

    @property
    def candidates(self) -> tuple[Resources, ...]:
        """All resources of which one would do."""
        return (self.resources, *self.choices)


def task_of(document: Document) -> Task:
    """Return the task of a document that `validate` finds no error in and `refusals` nothing."""
    data = Filled(document).document.data
    resources = data.get("resources") or {}
    first, *others = _candidates(resources)
    return Task(
        name=data.get("name"),
        num_nodes=data.get("num_nodes") or 1,
        resources=first,
        envs=_texts(data.get("envs")),
        secrets=_secrets(without_kept(data.get("secrets"))),
        kept_secrets=kept(data),
        volumes=tuple(mount_of(path, value) for path, value in (data.get("volumes") or {}).items()),
        files=local_files(data),
        buckets=buckets_of(data),
        repository=repository(data.get("workdir")),
        setup=data.get("setup"),
        run=data.get("run"),
        kubernetes=kubernetes_of(data.get("config")),
        choices=tuple(others),
        ordered=_ordered(resources),
        backend=_own(data).get("backend"),
        expose=_own(data).get("expose"),
    )


def _own(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields that SkyPilot does not have."""
    return (data.get("config") or {}).get("kubectl_sky") or {}


def image_of(value: str | Mapping[str, str] | None) -> str | None:
    """Return the container image; SkyPilot writes `docker:` before it, or as its key."""
    named = value.get("docker") if isinstance(value, Mapping) else value
    return named.strip().removeprefix("docker:") if named else None


def text_of(value: Data) -> str | None:
    """Return a variable's value as SkyPilot gives it to the task: 10 is "10", yes is "True"."""
    return None if value is None else str(value)


def _texts(values: Mapping[Any, Any] | None) -> dict[str, str | None]:
    return {str(name): text_of(value) for name, value in (values or {}).items()}


def _secrets(values: Mapping[Any, Any]) -> dict[str, Secret | None]:
    texts = _texts(values)
    return {name: None if text is None else Secret(text) for name, text in texts.items()}


def _candidates(resources: Mapping[str, Any]) -> list[Resources]:
    """Return every candidate: of any_of or ordered, and of several accelerators in each.

    Those that name another provider are left out, unless all do.
    """
    items = resources.get("any_of") or resources.get("ordered") or ()
    whole = [infra.merged(resources, item or {}) for item in items] or [resources]
    if items:
        whole = [values for values in whole if not infra.elsewhere(values)] or whole
    found = [candidate for values in whole for candidate in _resources(values)]
    return [item for index, item in enumerate(found) if item not in found[:index]]


def place_of(document: Document, resources: Resources) -> Path:
    """Return where a task's chosen resources stand: a candidate's path, or that of all."""
    wanted = replace(resources, context=None)
    gone = infra.left_out(document)
    for path in document.candidates():
        if path != ("resources",) and path not in gone:
            found = _resources(infra.whole(document, path))
            if any(replace(one, context=None) == wanted for one in found):
                return path
    return ("resources",)


def _ordered(resources: Mapping[str, Any]) -> bool:
    accelerators = resources.get("accelerators", resources.get("gpus"))
    return bool(resources.get("ordered")) or isinstance(accelerators, list)


def _resources(values: Mapping[str, Any]) -> Iterator[Resources]:
    """Yield the candidates of one set of fields: one for each accelerator."""
    shape = machine.shape(values.get("instance_type"))
    cpus, memory = values.get("cpus"), values.get("memory")
    accelerators = values.get("accelerators", values.get("gpus"))
    if shape:
        cpus, memory = cpus or shape.cpus, memory or shape.memory
        accelerators = shape.accelerators if accelerators is None else accelerators
    for asked in (None,) if accelerators is None else candidates(accelerators):
        yield Resources(
            cpus=None if cpus is None else quantity.cpus(cpus),
            memory=None if memory is None else quantity.memory(memory, cpus),
            accelerator=asked.whole if asked else None,
            image=image_of(values.get("image_id")),
            labels={key: str(text) for key, text in (values.get("labels") or {}).items()},
            disk=machine.disk(values.get("disk_size"), values.get("ephemeral_storage")),
            spot=bool(values.get("use_spot")),
            priority=values.get("priority"),
            priority_class=values.get("priority_class") or None,
            linger=machine.linger(values.get("autostop")),
            recovery=recovery(values.get("job_recovery")),
            context=infra.context(values),
            ports=ports.numbers(values.get("ports")),
            fast=str(values.get("network_tier")).lower() == "best",
        )
