"""Strings and numbers with their origin: the field of the user's file that set them."""

from collections.abc import Mapping
from typing import Any, Self

from msgspec.structs import replace

from kubectl_sky.plan import accelerators, fair_share
from kubectl_sky.plan.accelerators import Term
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.plan.ports import Ports
from kubectl_sky.plan.storage import Mount
from kubectl_sky.spec.document import Document, Path, entries, join_path, printable
from kubectl_sky.spec.task import Resources, resources_path
from kubectl_sky.words import names
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import Settings


class TracedStr(str):
    """A string with its origin: `task.yaml:7:3 resources.cpus`, `default`."""

    __slots__ = ("origin",)
    origin: str

    def __new__(cls, text: str, origin: str) -> Self:
        """Create the string; an empty origin means unknown."""
        instance = super().__new__(cls, text)
        instance.origin = origin
        return instance


class TracedInt(int):
    """An integer with its origin."""

    origin: str

    def __new__(cls, number: int, origin: str) -> Self:
        instance = super().__new__(cls, number)
        instance.origin = origin
        return instance


def trace(value: Any, origin: str) -> Any:
    """Return a text, number or secret with its origin; others, and without one, unchanged."""
    if origin and isinstance(value, str):
        return TracedStr(value, origin)
    if origin and isinstance(value, int) and not isinstance(value, bool):
        return TracedInt(value, origin)
    if origin and isinstance(value, Secret):
        return value.traced(origin)
    return value


def trace_values(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    return {key: trace(value, origins.get(key, "")) for key, value in values.items()}


_DEFAULT = "default"
_GPUS = ("accelerators", "gpus", "instance_type")
_SIZES = {
    "cpu": ("cpus", "instance_type"),
    "memory": ("memory", "instance_type"),
    "ephemeral-storage": ("disk_size", "ephemeral_storage"),
}
_METADATA = ("config", "kubernetes", "custom_metadata")


class Origins:
    """The origins of a task's values: fields of its file, flags or settings."""

    def __init__(self, document: Document, resources: Resources, settings: Settings) -> None:
        self._document = document
        self._chosen = resources_path(document, resources)
        self.settings = settings

    def field(self, *path: str | int, default: str = "") -> str:
        """Return `task.yaml:7:3 resources.cpus` for an existing field."""
        if self._document.get(*path) is None:
            return default
        location = self._document.problem(path, "", key=True).location
        return printable(f"{location} {join_path(path)}", 200)

    def resource(self, *fields: str, default: str = "") -> str:
        """Return the origin of the first field set, in the chosen candidate or above it."""
        paths: list[Path] = [self._chosen, ("resources",)]
        origins = (self.field(*path, field) for field in fields for path in paths)
        return next(filter(None, origins), default)

    def gpus(self) -> str:
        """Return the origin of the accelerators; several candidates share one origin."""
        items = [self.field("resources", form) for form in ("any_of", "ordered")]
        return next(filter(None, items), "") or self.resource(*_GPUS)

    def image(self, default: str = _DEFAULT) -> str:
        """Return the origin of the image: a field, a setting or the default."""
        if self.settings.defaults:
            default = "settings: defaults"
        if self.settings.image:
            default = "settings: image"
        return self.resource("image_id", default=default)

    def of_node(self, key: str) -> str:
        """Return the origin of a label or taint of cluster nodes."""
        spots = {rule.key for rule in accelerators.SPOT_RULES}
        return self.resource("use_spot") if key in spots else self.gpus()

    def keys(self, *path: str | int) -> dict[str, str]:
        return {key: self.field(*path, key) for key, _ in entries(self._document.get(*path))}

    def labels(self) -> dict[str, str]:
        origins = self.keys(*_METADATA, "labels") | self.keys("resources", "labels")
        origins |= self.keys(*self._chosen, "labels")
        return origins | {names.TASK_NAME: self.field("name")}


def with_origins(plan: Plan, origins: Origins) -> Plan:
    """Return the plan with origins; values that no field set stay unchanged."""
    custom = origins.keys(*_METADATA, "annotations")
    labels = origins.labels()
    name = origins.field("name")
    nodes = origins.field("num_nodes", default=_DEFAULT)

    annotations = {
        names.ORIGINAL_NAME: name,
        names.NUM_NODES: nodes,
        names.ACCELERATORS: origins.resource("accelerators"),
        names.PRIORITY: origins.resource("priority"),
    }

    network = dict.fromkeys(plan.network.resources, origins.resource("network_tier"))

    return replace(
        plan,
        labels=trace_values(plan.labels, labels),
        annotations=trace_values(plan.annotations, custom | annotations),
        pod_annotations=trace_values(plan.pod_annotations, custom),
        nodes=tuple(_node(node, labels, name) for node in plan.nodes),
        image=trace(plan.image, origins.image()),
        env=trace_values(plan.env, _environment(plan, origins, nodes)),
        secrets=trace_values(plan.secrets, origins.keys("secrets")),
        requests=trace_values(plan.requests, _sizes(plan.requests, origins)),
        limits=trace_values(plan.limits, _sizes(plan.limits, origins) | network),
        terms=tuple(_term(term, origins) for term in plan.terms),
        tolerations=tuple(
            replace(item, key=trace(item.key, origins.of_node(item.key)))
            for item in plan.tolerations
        ),
        priority_class=trace(
            plan.priority_class,
            origins.resource("priority_class", default=_priority_setting(plan)),
        ),
        max_seconds=trace(plan.max_seconds, origins.field("max_duration")),
        ttl_seconds=trace(plan.ttl_seconds, origins.resource("autostop")),
        restarts=trace(plan.restarts, origins.resource("job_recovery", default=_DEFAULT)),
        start_retries=trace(plan.start_retries, origins.resource("job_recovery", default=_DEFAULT)),
        scripts=trace_values(
            plan.scripts, {f"{item}.sh": origins.field(item) for item in ("setup", "run")}
        ),
        service=trace(plan.service, nodes),
        ports=plan.ports and _ports(plan.ports, origins),
        storage=replace(plan.storage, mounts=_mounts(plan, origins)),
    )


def _mounts(plan: Plan, origins: Origins) -> tuple[Mount, ...]:
    return tuple(
        replace(mount, path=trace(mount.path, origins.field("volumes", mount.path)))
        for mount in plan.storage.mounts
    )


def _priority_setting(plan: Plan) -> str:
    is_fair = (plan.priority_class or "").startswith(fair_share.PREFIX)
    return "settings: fair_share" if is_fair else "settings: priority_classes"


def _node(node: Node, labels: Mapping[str, str], name: str) -> Node:
    return replace(node, labels=trace_values(node.labels, labels), job=trace(node.job, name))


def _ports(ports: Ports, origins: Origins) -> Ports:
    settings = "settings: ports" if origins.settings.ports.get("expose") else _DEFAULT
    origin = origins.field("config", "kubectl_sky", "expose")
    origin = origin or origins.field("config", "kubernetes", "ports", default=settings)
    numbers = tuple(trace(number, origins.resource("ports")) for number in ports.numbers)
    return replace(ports, type=trace(ports.type, origin), numbers=numbers)


def _sizes(sizes: Mapping[str, str], origins: Origins) -> dict[str, str]:
    """Return the origin of each resource; other resources are accelerators."""
    return {
        name: origins.resource(*_SIZES[name], default="settings: defaults")
        if name in _SIZES
        else origins.gpus()
        for name in sizes
    }


def _environment(plan: Plan, origins: Origins, nodes: str) -> dict[str, str]:
    gpus = origins.gpus() or _DEFAULT
    variables = {"NUM_NODES": nodes, "SKYPILOT_NUM_GPUS_PER_NODE": gpus}
    network = dict.fromkeys(plan.network.env, origins.resource("network_tier"))
    return network | variables | origins.keys("envs")


def _term(term: Term, origins: Origins) -> Term:
    return tuple(
        replace(
            rule, values=tuple(trace(value, origins.of_node(rule.key)) for value in rule.values)
        )
        for rule in term
    )
