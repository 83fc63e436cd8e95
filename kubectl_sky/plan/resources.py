"""The resources of a task's nodes, and of the pods of any workload."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kubectl_sky.plan import accelerators
from kubectl_sky.spec import quantity
from kubectl_sky.words.core_objects import LimitRange, LimitRangeItem, Node
from kubectl_sky.words.pod_objects import Container, PodSpec, Resources, TemplateSpec
from kubectl_sky.words.settings import DEFAULT_IMAGE, SKYPILOT_GPU_IMAGE, SKYPILOT_IMAGE, Settings

if TYPE_CHECKING:
    from kubectl_sky.plan.placement import Placement
    from kubectl_sky.plan.plan import Plan

ACCELERATORS = accelerators.RESOURCES
_STEPS = {"cpu": Fraction(1, 1000)}  # bytes and devices are whole numbers
_DISK = "ephemeral-storage"
# SkyPilot's defaults.
_CPUS = 2
_CPUS_OF_A_GPU = 4
_GIB_OF_A_CPU = {False: 1, True: 4}  # GPU tasks get more memory per CPU


def node_requests(placement: "Placement", settings: Settings) -> dict[str, str]:
    """Return the task's requests and the settings' defaults; GPUs are limits only."""
    resources = placement.resources
    sizes = {"cpu": resources.cpus, "memory": resources.memory, _DISK: resources.disk}
    explicit = {name: size for name, size in sizes.items() if size is not None}
    return explicit | _default_requests(placement, settings)


def node_limits(
    placement: "Placement", requested: Mapping[str, str], factor: Fraction | None
) -> dict[str, str]:
    """Return the limits: a multiple of the requests; a factor of 0 means none.

    Without a factor, the limits are the task's own CPU and memory, unless it writes them as a
    minimum (`4+`). There is no disk limit, so a pod that writes more than its disk size is not
    evicted for it. GPUs are always limits (Kubernetes copies them to the requests).
    """
    device = placement.device
    resources = placement.resources

    if factor is None:
        sizes = {"cpu": resources.cpus, "memory": resources.memory}
        bounds = {
            name: size
            for name, size in sizes.items()
            if size is not None and name not in resources.unlimited
        }
    else:
        bounds = {
            name: quantity.multiple(size, factor, _STEPS.get(name, Fraction(1)))
            for name, size in requested.items()
            if factor
        }

    return bounds | ({device.resource: str(device.count)} if device else {})


def _default_requests(placement: "Placement", settings: Settings) -> dict[str, str]:
    """Return SkyPilot's default requests for sizes that are not set, if enabled.

    They are not limits, as in SkyPilot (clouds/kubernetes.py): a task without sizes is not limited.
    """
    if settings.defaults != "skypilot":
        return {}
    resources = placement.resources
    gpus = placement.device.count if placement.device else 0
    cpus = quantity.quantity(resources.cpus or str(gpus * _CPUS_OF_A_GPU or _CPUS))
    memory = quantity.memory(float(cpus * _GIB_OF_A_CPU[gpus > 0]))
    given = {"cpu": resources.cpus, "memory": resources.memory}
    estimates = {"cpu": quantity.cpus(float(cpus)), "memory": memory}
    return {name: size for name, size in estimates.items() if given[name] is None}


def default_image(placement: "Placement", settings: Settings) -> str:
    if settings.image:
        return settings.image
    if settings.defaults == "skypilot":
        return SKYPILOT_GPU_IMAGE if placement.device else SKYPILOT_IMAGE
    return DEFAULT_IMAGE


def default_notes(placement: "Placement", settings: Settings) -> tuple[str, ...]:
    requested = [f"{name} {size}" for name, size in _default_requests(placement, settings).items()]
    messages = (
        [f"settings: defaults: skypilot requests {' and '.join(requested)}"] if requested else []
    )
    default = default_image(placement, settings)
    if placement.resources.image is None and default != DEFAULT_IMAGE:
        messages.append(f"settings: the image is {default}")
    return tuple(messages)


def total_requests(plan: "Plan") -> dict[str, str]:
    """Return the nodes' total requests; empty if the pod config may change them."""
    if "containers" in (plan.pod_options.pod_config.get("spec") or {}):
        return {}
    count = Fraction(len(plan.nodes))
    return {  # Kubernetes copies a limit without a request
        name: quantity.multiple(size, count, _STEPS.get(name, Fraction(1)))
        for name, size in {**plan.limits, **plan.requests}.items()
    }


Amounts = dict[str, Fraction]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# Quotas on these names require the request or limit of every container.
_REQUIRED = {
    f"{prefix}{resource}": (part, resource)
    for resource in ("cpu", "memory")
    for prefix, part in (("", "requests"), ("requests.", "requests"), ("limits.", "limits"))
}
_IN_BYTES = ("memory", "storage")


def amounts(sizes: Mapping[str, Any] | None) -> Amounts:
    """Return quantities as numbers; those that are not quantities are left out."""
    result: Amounts = {}
    for name, size in (sizes or {}).items():
        try:
            result[name] = quantity.quantity(str(size))
        except ValueError:  # the API server reports it
            continue
    return result


def show(resource: str, amount: Fraction) -> str:
    """Return an amount of a resource as a quantity: 500m, 8Gi, 1024."""
    if resource.endswith("cpu"):
        return quantity.multiple("1", amount, _STEPS["cpu"])
    if resource.endswith(_IN_BYTES) or "hugepages" in resource:
        return quantity.multiple("1", amount, Fraction(1))
    return str(-(-amount.numerator // amount.denominator))


def cpus(amount: Fraction) -> str:
    """Return CPUs as people say them, exact to a thousandth: 500m, 900.1."""
    if amount < 1:
        return show("cpu", amount)
    return f"{float(amount):.3f}".rstrip("0").rstrip(".")


def readable(resource: str, amount: str) -> str:
    """Return bytes in the largest binary unit, with one decimal, and CPUs: 204.8Mi, 900.1."""
    try:
        size = quantity.quantity(amount)
    except ValueError:
        return amount
    if resource.endswith("cpu"):
        return cpus(size)
    if not resource.endswith(_IN_BYTES):
        return amount
    units = [(unit, 1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)]
    unit, factor = next((pair for pair in reversed(units) if size >= pair[1]), ("", 1))
    return f"{float(round(size / factor, 1)):g}{unit}"


class PodResources:
    """The requests and limits of a pod, with the defaults of the LimitRanges of its namespace."""

    def __init__(self, spec: PodSpec, limit_ranges: Sequence[LimitRange] = ()) -> None:
        self.spec = spec
        limits = [item for part in limit_ranges for item in part.spec.limits or ()]
        defaults = [item for item in limits if item.type == "Container"]
        self.containers = [_resources(entry, defaults) for entry in spec.containers]
        entries = spec.init_containers
        self._init = [
            (entry.restart_policy == "Always", _resources(entry, defaults)) for entry in entries
        ]
        self.all_containers = [*self.containers, *(item for _, item in self._init)]

    def total(self, part: str) -> Amounts:
        """Return the sum of `requests` or `limits`.

        Init containers run one at a time, beside the sidecars before them. A resource of the pod
        replaces the sum; its limit is the default of a request that no container sets.
        """
        sidecars: Amounts = {}
        peak: Amounts = {}
        for is_sidecar, resources in self._init:
            running = _combine(sum, sidecars, resources[part])
            peak = _combine(max, peak, running)
            sidecars = running if is_sidecar else sidecars
        main = _combine(sum, sidecars, *(resources[part] for resources in self.containers))
        levels = self._pod_level
        return levels["limits"] | _combine(max, peak, main) | levels[part]

    @property
    def _pod_level(self) -> dict[str, Amounts]:
        resources = self.spec.resources or Resources()
        return {"requests": amounts(resources.requests), "limits": amounts(resources.limits)}

    @property
    def quota_usage(self) -> Amounts:
        """What the pod uses, by the names in ResourceQuotas."""
        usage: Amounts = {"pods": Fraction(1)}
        for name, amount in self.total("requests").items():
            usage[f"requests.{name}"] = amount
            if name in _COMPUTE or name.startswith("hugepages-"):
                usage[name] = amount
        return usage | {f"limits.{name}": size for name, size in self.total("limits").items()}

    def missing(self, hard: Iterable[str]) -> list[str]:
        """Return the names in a quota that every container must set, and one does not.

        Containers of a pod with pod-level resources need not set any.
        """
        if any(self._pod_level.values()):
            return []
        required = {name: _REQUIRED[name] for name in sorted(hard) if name in _REQUIRED}
        return [
            name
            for name, (part, resource) in required.items()
            if any(resource not in resources[part] for resources in self.all_containers)
        ]

    @property
    def is_best_effort(self) -> bool:
        """Whether no container requests or limits CPU or memory; pod-level resources go first."""
        pod_level = self._pod_level
        return not any(
            name in _REQUIRED
            for resources in ([pod_level] if any(pod_level.values()) else self.all_containers)
            for part in ("requests", "limits")
            for name in resources[part]
        )


def _combine(combine: Callable[[Iterable[Fraction]], Fraction | int], *parts: Amounts) -> Amounts:
    names = {name for part in parts for name in part}
    return {
        name: Fraction(combine(part.get(name, Fraction(0)) for part in parts)) for name in names
    }


def _resources(container: Container, defaults: Sequence[LimitRangeItem]) -> dict[str, Amounts]:
    """Return requests and limits by part; the API server copies a limit without a request."""
    resources = container.resources or Resources()
    limits = amounts(resources.limits)
    parts = {"requests": limits | amounts(resources.requests), "limits": limits}
    for item in defaults:
        parts["requests"] = amounts(item.default_request) | parts["requests"]
        parts["limits"] = amounts(item.default) | parts["limits"]
    return parts


def list_requested(spec: TemplateSpec) -> list[str]:
    return sorted({name for requests in _requests(spec) for name in requests})


def sum_requests(spec: TemplateSpec, resource: str) -> Fraction:
    """Return the sum of the containers' requests; a limit alone counts as a request."""
    return sum((requests.get(resource, Fraction(0)) for requests in _requests(spec)), Fraction(0))


def _requests(spec: TemplateSpec) -> list[Amounts]:
    return [_resources(container, ())["requests"] for container in spec.containers]


def container_limit(spec: PodSpec, container: str, resource: str) -> str:
    """Return the limit of a container as a quantity; empty if it has none."""
    for item in spec.containers:
        if item.name == container and item.resources:
            return str((item.resources.limits or {}).get(resource, ""))
    return ""


def allocatable(cluster_node: Node, resource: str) -> Fraction:
    return amount_of(cluster_node.status.allocatable.get(resource))


def amount_of(text: object) -> Fraction:
    """Return a quantity as a number; 0 if it is missing or invalid."""
    try:
        return quantity.quantity(str(text))
    except ValueError:
        return Fraction(0)


def too_large(spec: PodSpec, cluster_nodes: Sequence[Node]) -> list[str]:
    if not cluster_nodes:
        return []
    return [
        name
        for name in list_requested(spec)
        if sum_requests(spec, name) > max(allocatable(item, name) for item in cluster_nodes)
    ]


class Gpus(Struct, frozen=True):
    """The GPUs that a pod requests: their number, and their model or resource name."""

    count: int
    model: str


def gpus_of(spec: TemplateSpec, labels: Mapping[str, str] | None = None) -> Gpus | None:
    """Return the GPUs of a pod; None if it has none. `labels` are those of its cluster node."""
    for resource in ACCELERATORS:
        count = int(sum_requests(spec, resource))
        if count > 0:
            models = accelerators.from_labels(labels or {}) or _count_models(spec)
            return Gpus(count, next(iter(models), resource))
    return None


def _count_models(spec: TemplateSpec) -> list[str]:
    """Return the models in the node selector and the required node affinity of a pod."""
    labels = dict(spec.node_selector or {})
    for term in spec.node_terms:
        for rule in term.match_expressions or ():
            if rule.operator == "In" and rule.values:
                labels.setdefault(rule.key, rule.values[0])
    return accelerators.from_labels(labels)
