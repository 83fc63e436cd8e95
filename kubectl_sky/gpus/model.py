"""The cluster nodes with accelerators and their users, and what the nodes of a task use."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct

from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.plan.accelerators import from_labels
from kubectl_sky.plan.resources import ACCELERATORS, amount_of, requested, requested_names
from kubectl_sky.words import names
from kubectl_sky.workloads.workload import Object

if TYPE_CHECKING:
    from kubectl_sky.words import models

_OVER = ("Succeeded", "Failed")


class AcceleratorNode(Struct, frozen=True):
    """A cluster node with accelerators of one resource name.

    `used` is the sum of the requests of its pods; None if the user may not list pods. `users` has
    the count for each user: the owner for tasks, the namespace for other pods.
    """

    name: str
    model: str
    resource: str
    total: int
    used: int | None
    ready: bool
    users: tuple[tuple[str, int], ...] = ()

    @property
    def free(self) -> int | None:
        """The number that a pod could get; 0 if the cluster node accepts no pods."""
        if self.used is None:
            return None
        return max(self.total - self.used, 0) if self.ready else 0

    def as_json(self) -> "models.GpuNode":
        """Return the cluster node as JSON values."""
        return {
            "node": self.name,
            "accelerator": self.model,
            "resource": self.resource,
            "total": self.total,
            "used": self.used,
            "free": self.free,
            "ready": self.ready,
            "users": dict(self.users),
        }


class Holding(Struct, frozen=True):
    """The accelerators that a pod holds: the cluster node, the user, and the number by resource."""

    node: str
    user: str
    counts: Mapping[str, int]


def holding(pod: Object) -> Holding | None:
    """Return the accelerators that a pod holds; None without any."""
    node = pod.get("spec", {}).get("nodeName")
    if not node or pod.get("status", {}).get("phase") in _OVER:
        return None
    resources = set(requested_names(pod)).intersection(ACCELERATORS)
    counts = {name: int(requested(pod, name)) for name in resources}
    return Holding(node, _holder(pod), counts) if any(counts.values()) else None


def accelerator_nodes(
    nodes: Iterable[Object], holdings: Iterable[Holding] | None
) -> list[AcceleratorNode]:
    """Return the cluster nodes with accelerators, by resource, model and name.

    If `holdings` is None, the use is not known.
    """
    held: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for item in holdings or ():
        for resource, count in item.counts.items():
            held[item.node, resource][item.user] += count
    matches = []
    for node in nodes:
        for resource in ACCELERATORS:
            users = held[node["metadata"]["name"], resource]
            match = _of_resource(node, resource, users, pods_known=holdings is not None)
            if match.total or users:
                matches.append(match)
    return sorted(matches, key=lambda item: (item.resource, item.model, item.name))


def _of_resource(
    node: Object, resource: str, users: dict[str, int], pods_known: bool
) -> AcceleratorNode:
    labels = node["metadata"].get("labels") or {}
    allocatable = node.get("status", {}).get("allocatable", {})
    return AcceleratorNode(
        name=node["metadata"]["name"],
        model=next(iter(from_labels(labels)), ""),
        resource=resource,
        total=int(amount_of(allocatable.get(resource))),
        used=sum(users.values()) if pods_known else None,
        ready=_ready(node),
        users=tuple(sorted(users.items(), key=lambda item: (-item[1], item[0]))),
    )


def _holder(pod: Object) -> str:
    labels = pod["metadata"].get("labels") or {}
    user = labels.get(names.USERNAME) if names.TASK in labels else None
    return str(user or f"namespace {pod['metadata'].get('namespace', '')}")


def _ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    )
    return ready and not node.get("spec", {}).get("unschedulable")


class Use(Struct, frozen=True):
    """CPUs and bytes of memory that a node uses, and that it requested (0: not set)."""

    node: NodeStatus
    cpus: Fraction
    memory: Fraction
    cpus_asked: Fraction
    memory_asked: Fraction
    accelerators_asked: int = 0

    def as_json(self) -> "models.NodeUsage":
        """Return the use as JSON values; null if nothing was requested."""
        return {
            "node": self.node.index,
            "pod": self.node.pod,
            "cpus": float(self.cpus),
            "memory_bytes": int(self.memory),
            "cpus_asked": float(self.cpus_asked) or None,
            "memory_bytes_asked": int(self.memory_asked) or None,
            "gpus_asked": self.accelerators_asked or None,
        }


def uses(
    nodes: Iterable[NodeStatus], pods: Iterable[Object], metrics: Iterable[Object]
) -> list[Use]:
    pods_by_name = {pod["metadata"]["name"]: pod for pod in pods}
    metrics_by_name = {item["metadata"]["name"]: item for item in metrics}
    return [
        _use(node, pods_by_name.get(node.pod, {}), metrics_by_name[node.pod])
        for node in nodes
        if node.pod in metrics_by_name
    ]


def _use(node: NodeStatus, pod: Object, metrics: Object) -> Use:
    return Use(
        node,
        cpus=_used(metrics, "cpu"),
        memory=_used(metrics, "memory"),
        cpus_asked=requested(pod, "cpu"),
        memory_asked=requested(pod, "memory"),
        accelerators_asked=sum(int(requested(pod, name)) for name in ACCELERATORS),
    )


def _used(metrics: Object, resource: str) -> Fraction:
    usages = (container.get("usage") or {} for container in metrics.get("containers") or ())
    return sum((amount_of(usage.get(resource)) for usage in usages), Fraction(0))
