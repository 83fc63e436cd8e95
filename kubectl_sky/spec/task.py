"""The task: the supported part of a valid document, as values.

schemas/unsupported.yaml lists the fields that are not read.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from kubectl_sky.spec import image, infra, lifecycle, quantity, resource_fields
from kubectl_sky.spec.accelerator import Accelerator, candidates
from kubectl_sky.spec.buckets import Bucket, buckets_of
from kubectl_sky.spec.document import Document, Path
from kubectl_sky.spec.files import WORKDIR, LocalFiles, Repository, local_files, repository
from kubectl_sky.spec.kubernetes import Kubernetes, kubernetes_of
from kubectl_sky.spec.lifecycle import MAX_INTEGER, Hook, OnHang, Recovery, recovery
from kubectl_sky.spec.pipeline import Array, array_of, seconds
from kubectl_sky.spec.service import ServiceSpec
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.spec.variables import (
    REGISTRY,
    SecretReference,
    existing_secrets,
    list_given_secrets,
)
from kubectl_sky.spec.volumes import VolumeMount, mount_of
from kubectl_sky.words.secret import Secret

__all__ = ["Accelerator", "Kubernetes", "Recovery", "Resources", "Task", "VolumeMount", "task_of"]


class Resources(Struct, frozen=True):
    """What each node needs; sizes are Kubernetes quantities. None leaves a value to the cluster."""

    cpus: str | None = None
    memory: str | None = None
    accelerator: Accelerator | None = None
    image: str | None = None
    labels: Mapping[str, str] = {}
    disk: str | None = None  # size of the ephemeral storage
    spot: bool = False  # runs on spot nodes only
    priority: int | None = None
    priority_class: str | None = None
    ttl_seconds: int | None = None  # seconds after which a finished task is deleted
    recovery: Recovery | None = None
    context: str | None = None  # of the kubeconfig
    ports: tuple[int, ...] = ()  # those that clients connect to, sorted and without duplicates
    fast: bool = False  # requests the best network
    # Sizes that are a minimum, such as `4+`: "cpu", "memory".
    unlimited: frozenset[str] = frozenset()


class Task(Struct, frozen=True):
    """One task; a variable or secret that is None must be given on the command line."""

    name: str | None = None
    num_nodes: int = 1
    resources: Resources = field(default_factory=Resources)  # the first candidate
    envs: Mapping[str, str | None] = {}
    # And the login to a registry, also if it is in `envs` of the file.
    secrets: Mapping[str, Secret | None] = {}
    existing_secrets: tuple[SecretReference, ...] = ()  # those in the cluster
    volumes: tuple[VolumeMount, ...] = ()
    files: tuple[LocalFiles, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    repository: Repository | None = None  # the git repository of the workdir
    setup: str | None = None
    run: str | None = None
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    choices: tuple[Resources, ...] = ()  # the other candidates for `resources`
    ordered: bool = False  # whether the order of candidates matters
    backend: str | None = None  # how the task runs; None: the settings decide
    array: Array | None = None  # the numbers of an array of single-node tasks
    expose: str | None = None  # how ports are exposed; None: `kubernetes` and the settings decide
    exclude_nodes: tuple[str, ...] = ()  # cluster nodes that none of its nodes runs on
    # Whether all nodes start together: False is `off` in YAML; None: the settings decide.
    gang: str | bool | None = None
    topology: str | None = None  # the label of cluster nodes whose value its nodes share
    logs: str | None = None  # VOLUME/PATH, the folder to which nodes also write their logs
    service: ServiceSpec | None = None  # of a replica
    stays: bool = False  # clients do not wait for its end
    max_duration: str | None = None  # how long it may run, such as `10h`
    hooks: tuple[Hook, ...] = ()  # run when a node is told to stop
    event_callback: str | None = None  # runs on rank 0 when the state changes
    on_hang: OnHang | None = None
    step_regex: str = ""  # which lines of its log are steps; empty: those of usual trainers
    hold: str = ""  # how long a failed container is held, such as `30m`
    slurm: str = ""  # `batch` or `ranks`: `run` is a batch script of Slurm
    scripts: Mapping[str, str] = {}  # files beside `setup` and `run`
    notes: tuple[str, ...] = ()  # how it differs from the file, for the user

    @property
    def max_seconds(self) -> int | None:
        return min(seconds(self.max_duration), MAX_INTEGER) if self.max_duration else None

    @property
    def candidates(self) -> tuple[Resources, ...]:
        return (self.resources, *self.choices)

    @property
    def fills_workdir(self) -> bool:
        """Whether `~/sky_workdir` has files when the task starts."""
        paths = (files.path for files in self.files)
        return bool(self.repository) or any(
            PurePosixPath(path).is_relative_to(WORKDIR) for path in paths
        )


def task_of(document: Document) -> Task:
    """Return the task of a document without errors from `validate` and `refusals`."""
    data = Filled(document).document.data
    resources = data.get("resources") or {}
    first, *others = _candidates(resources)

    accelerators = resources.get("accelerators", resources.get("gpus"))
    envs = {str(name): value for name, value in (data.get("envs") or {}).items()}
    login = {name: value for name, value in envs.items() if name in REGISTRY}

    return Task(
        name=data.get("name"),
        num_nodes=data.get("num_nodes") or 1,
        resources=first,
        envs={
            name: None if value is None else str(value)  # as in SkyPilot: yes is "True"
            for name, value in envs.items()
            if name not in REGISTRY and not isinstance(value, Secret)
        },
        secrets={
            str(name): value if value is None or isinstance(value, Secret) else Secret(str(value))
            for name, value in (login | list_given_secrets(data.get("secrets"))).items()
        },
        existing_secrets=existing_secrets(data),
        volumes=tuple(mount_of(path, value) for path, value in (data.get("volumes") or {}).items()),
        files=local_files(data),
        buckets=buckets_of(data),
        repository=repository(data.get("workdir")),
        setup=data.get("setup"),
        run=data.get("run"),
        kubernetes=kubernetes_of(data.get("config")),
        choices=tuple(others),
        max_duration=data.get("max_duration"),
        hooks=lifecycle.hooks(data.get("config")),
        event_callback=data.get("event_callback"),
        ordered=bool(resources.get("ordered")) or isinstance(accelerators, list),
        backend=_own(data).get("backend"),
        array=array_of(_own(data)),
        expose=_own(data).get("expose"),
        exclude_nodes=tuple(dict.fromkeys(_own(data).get("exclude_nodes") or ())),
        gang=_own(data).get("gang"),
        topology=_own(data).get("topology"),
        on_hang=lifecycle.on_hang(_own(data).get("on_hang")),
        hold=_own(data).get("hold_on_failure") or "",
        logs=_own(data).get("logs"),
        slurm=_own(data).get("slurm") or "",
        step_regex=_own(data).get("step_regex") or "",
    )


def _own(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of `config.kubectl_sky`, which SkyPilot does not have."""
    return (data.get("config") or {}).get("kubectl_sky") or {}


def _candidates(resources: Mapping[str, Any]) -> list[Resources]:
    """Return all candidates: each item of any_of or ordered, with each accelerator.

    Candidates that name another provider are left out, unless all of them do.
    """
    items = resources.get("any_of") or resources.get("ordered") or ()
    field_sets = [infra.merge(resources, item or {}) for item in items] or [resources]
    if items:
        field_sets = [values for values in field_sets if not infra.elsewhere(values)] or field_sets
    expanded = [candidate for values in field_sets for candidate in _resources(values)]
    return [item for index, item in enumerate(expanded) if item not in expanded[:index]]


def resources_path(document: Document, resources: Resources) -> Path:
    chosen = replace(resources, context=None)
    excluded_paths = infra.find_left_out(document)
    for path in document.resources.paths:
        if path != ("resources",) and path not in excluded_paths:
            alternatives = _resources(infra.candidate_fields(document, path))
            if any(replace(alternative, context=None) == chosen for alternative in alternatives):
                return path
    return ("resources",)


def _resources(values: Mapping[str, Any]) -> Iterator[Resources]:
    shape = resource_fields.shape(values.get("instance_type"))
    cpus = values.get("cpus")
    memory = values.get("memory")
    accelerators = values.get("accelerators", values.get("gpus"))
    if shape:
        cpus = cpus or shape.cpus
        memory = memory or shape.memory
        accelerators = shape.accelerators if accelerators is None else accelerators

    for accelerator in (None,) if accelerators is None else candidates(accelerators):
        cpu_quantity = None if cpus is None else quantity.cpus(cpus)
        memory_quantity = None if memory is None else quantity.memory(memory, cpus)
        rounded = accelerator.rounded if accelerator else None

        yield Resources(
            cpus=cpu_quantity,
            memory=memory_quantity,
            accelerator=rounded,
            image=image.of(values),
            labels={key: str(text) for key, text in (values.get("labels") or {}).items()},
            disk=resource_fields.disk(values.get("disk_size"), values.get("ephemeral_storage")),
            spot=bool(values.get("use_spot")),
            priority=values.get("priority"),
            priority_class=values.get("priority_class") or None,
            ttl_seconds=lifecycle.ttl_seconds(values.get("autostop")),
            recovery=recovery(values.get("job_recovery")),
            context=infra.context(values),
            ports=resource_fields.port_numbers(values.get("ports")),
            fast=str(values.get("network_tier")).lower() == "best",
            unlimited=frozenset(
                name
                for name, size in (("cpu", cpus), ("memory", memory))
                if quantity.is_minimum(size)
            ),
        )
