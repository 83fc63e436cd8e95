"""The resources that pods request, and those that cluster nodes have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kubectl_sky.plan import accelerators
from kubectl_sky.spec.quantity import quantity
from kubectl_sky.workloads.workload import Object

ACCELERATORS = (*(family.resource for family in accelerators.FAMILIES), accelerators.TPU_RESOURCE)


def requested_names(pod: Object) -> list[str]:
    """Return the names of the resources that the containers of a pod request."""
    sizes = (container.get("resources", {}) for container in pod["spec"].get("containers", ()))
    return sorted({name for size in sizes for part in size.values() for name in part or ()})


def requested(pod: Object, resource: str) -> Fraction:
    """Return the sum of the containers' requests; a limit alone counts as a request."""
    containers = pod.get("spec", {}).get("containers", ())
    return sum(
        (
            amount_of(
                {
                    **(resources.get("limits") or {}),
                    **(resources.get("requests") or {}),
                }.get(resource)
            )
            for resources in (container.get("resources") or {} for container in containers)
        ),
        Fraction(0),
    )


def limit(pod: Object, container: str, resource: str) -> str:
    """Return the limit of a container as a quantity; empty if it has none."""
    for item in pod.get("spec", {}).get("containers", ()):
        if item.get("name") == container:
            return str((item.get("resources") or {}).get("limits", {}).get(resource, ""))
    return ""


def allocatable(cluster_node: Object, resource: str) -> Fraction:
    """Return how much of a resource a cluster node has for pods."""
    return amount_of(cluster_node.get("status", {}).get("allocatable", {}).get(resource))


def amount_of(text: object) -> Fraction:
    """Return a quantity as a number; 0 if it is missing or invalid."""
    try:
        return quantity(str(text))
    except ValueError:
        return Fraction(0)


def too_large(pod: Object, cluster_nodes: Sequence[Object]) -> list[str]:
    """Return the resources of which a pod requests more than any cluster node has."""
    if not cluster_nodes:
        return []
    return [
        name
        for name in requested_names(pod)
        if requested(pod, name) > max(allocatable(item, name) for item in cluster_nodes)
    ]


@dataclass(frozen=True)
class Gpus:
    """The GPUs that a pod requests: their number, and their model or resource name."""

    count: int
    model: str


def gpus_of(pod: Object, labels: Mapping[str, str] | None = None) -> Gpus | None:
    """Return the GPUs of a pod; None if it has none. `labels` are those of its cluster node."""
    for resource in ACCELERATORS:
        count = int(requested(pod, resource))
        if count > 0:
            models = accelerators.from_labels(labels or {}) or _requested_models(pod)
            return Gpus(count, next(iter(models), resource))
    return None


def _requested_models(pod: Object) -> list[str]:
    """Return the models in the node selector and the required node affinity of a pod."""
    spec = pod.get("spec", {})
    labels: dict[str, str] = dict(spec.get("nodeSelector") or {})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for rule in term.get("matchExpressions") or ():
            if rule.get("operator") == "In" and rule.get("values"):
                labels.setdefault(rule.get("key", ""), rule["values"][0])
    return accelerators.from_labels(labels)
