"""The cluster nodes with accelerators and their users, and what the nodes of a task use."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.plan.accelerators import from_labels
from kubectl_sky.plan.devices import devices_of
from kubectl_sky.plan.resources import ACCELERATORS, amount_of, list_requested, sum_requests
from kubectl_sky.words import names
from kubectl_sky.words.core_objects import Node, PodMetrics
from kubectl_sky.words.documents import Document, Note, Part
from kubectl_sky.words.objects import find_true
from kubectl_sky.words.pod_objects import NO_POD, Pod
from kubectl_sky.words.scheduled_objects import ResourceClaim


class AcceleratorNode(Part, frozen=True, rename={"name": "node", "model": "accelerator"}):
    """A cluster node with accelerators of one resource name."""

    name: str
    model: str
    resource: str
    total: int
    used: Annotated[int | None, Note("requested by its pods; null if you may not list pods")]
    free: Annotated[
        int | None,
        Note("what a pod could get, 0 if it accepts none; null if you may not list pods"),
    ]
    ready: bool
    users: Annotated[
        dict[str, int], Note("used, by user: the owner of tasks, the namespace of other pods")
    ]


class GpuList(Document, frozen=True, kw_only=True):
    """Cluster nodes with accelerators: `gpus`, `GET /gpus`."""

    machines: list[AcceleratorNode]


class Holding(Struct, frozen=True):
    """The accelerators that a pod holds: the cluster node, the user, and the number by resource.

    `pod` is its namespace and name. What its ResourceClaims hold is not counted.
    """

    node: str
    user: str
    counts: Mapping[str, int]
    pod: tuple[str, str] = ("", "")


class Allocation(Struct, frozen=True):
    """The devices of a ResourceClaim, and the pods that it is reserved for."""

    devices: tuple[tuple[str, str, str], ...]
    namespace: str
    pods: tuple[str, ...]


def allocation(claim: ResourceClaim) -> Allocation | None:
    """Return the devices of a ResourceClaim; None if none are allocated."""
    status = claim.status
    allocated = status.allocation.devices.results if status.allocation else ()
    keys = tuple((it.driver, it.pool, it.device) for it in allocated or ())
    pods = tuple(item.name for item in status.reserved_for or ())
    return Allocation(keys, claim.metadata.namespace, pods) if keys else None


def holding(pod: Pod) -> Holding | None:
    """Return the accelerators that a pod holds; None without any, and without ResourceClaims."""
    node = pod.spec.node_name
    if not node or pod.status.has_ended:
        return None
    resources = set(list_requested(pod.spec)).intersection(ACCELERATORS)
    counts = {name: int(sum_requests(pod.spec, name)) for name in resources}
    if not any(counts.values()) and not pod.spec.resource_claims:
        return None
    metadata = pod.metadata
    return Holding(node, _holder(pod), counts, (metadata.namespace, metadata.name))


def places(
    machines: Iterable[AcceleratorNode], models: Sequence[str], count: int, nodes: int
) -> list[str]:
    """Return the cluster nodes that have room now for `nodes` nodes with `count` GPUs each.

    No models mean any. It returns none if there is no room for all nodes.
    """
    rooms = {
        machine.name: (machine.free or 0) // count
        for machine in machines
        if not models or machine.model in models
    }
    return [name for name, room in rooms.items() if room] if sum(rooms.values()) >= nodes else []


def accelerator_nodes(
    nodes: Sequence[Node],
    holdings: Sequence[Holding] | None,
    allocations: Sequence[Allocation] | None = None,
) -> list[AcceleratorNode]:
    """Return the cluster nodes with accelerators, by resource, model and name.

    If `holdings` is None, the use is not known. `allocations` are those of devices of DRA drivers;
    if they are None, only what pods request by a resource name counts.
    """
    held = _count_held(nodes, holdings or (), allocations)
    matches = []
    for node in nodes:
        own = {device.resource for device in devices_of(node)}
        for resource in (*ACCELERATORS, *sorted(own - {*ACCELERATORS})):
            users = held[node.metadata.name, resource]
            match = _of_resource(node, resource, users, pods_known=holdings is not None)
            if match.total or users:
                matches.append(match)
    return sorted(matches, key=lambda item: (item.resource, item.model, item.name))


def _count_held(
    nodes: Sequence[Node],
    holdings: Sequence[Holding],
    allocations: Sequence[Allocation] | None,
) -> dict[tuple[str, str], dict[str, int]]:
    """Return what users hold, by cluster node and resource."""
    held: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    devices = {device.key: device for node in nodes for device in devices_of(node)}
    known = {(it.node, it.resource) for it in devices.values()} if allocations is not None else {}
    for item in holdings:
        for resource, count in item.counts.items():
            if (item.node, resource) not in known:  # its claim counts
                held[item.node, resource][item.user] += count
    users_of_pods = {item.pod: item.user for item in holdings}
    for claim in allocations or ():
        users = [users_of_pods.get((claim.namespace, pod)) for pod in claim.pods]
        user = next(filter(None, users), f"namespace {claim.namespace}")
        for device in filter(None, map(devices.get, claim.devices)):
            held[device.node, device.resource][user] += 1
    return held


def _of_resource(
    node: Node, resource: str, users: dict[str, int], pods_known: bool
) -> AcceleratorNode:
    labels = node.metadata.labels
    allocatable = node.status.allocatable
    devices = [device for device in devices_of(node) if device.resource == resource]
    models = [*from_labels(labels), *filter(None, (device.model for device in devices))]

    total = int(amount_of(allocatable.get(resource, str(len(devices)))))
    in_use = sum(users.values())
    ready = find_true(node.status.conditions, "Ready") is not None
    ready = ready and not node.spec.unschedulable
    available = max(total - in_use, 0) if ready else 0
    used = in_use if pods_known else None
    free = available if pods_known else None

    return AcceleratorNode(
        name=node.metadata.name,
        model=next(iter(models), ""),
        resource=resource,
        total=total,
        used=used,
        free=free,
        ready=ready,
        users=dict(sorted(users.items(), key=lambda item: (-item[1], item[0]))),
    )


def _holder(pod: Pod) -> str:
    labels = pod.metadata.labels
    user = labels.get(names.USERNAME) if names.TASK in labels else None
    return str(user or f"namespace {pod.metadata.namespace}")


class NodeUsage(Struct, frozen=True):
    """What a node uses, and what it requested."""

    node: Annotated[int, Note("rank")]
    pod: str
    cpus: float
    memory_bytes: int
    cpus_asked: float | None
    memory_bytes_asked: int | None
    gpus_asked: int | None


class UsageSeries(Struct, frozen=True):
    """What a node has used over time."""

    node: Annotated[int, Note("rank")]
    measure: Annotated[str, Note("`cpus`, `memory_bytes`, `gpu_percent` or `gpu_memory_bytes`")]
    values: Annotated[list[float | None], Note("null where nothing was measured")]


class UsageHistory(Struct, frozen=True):
    """What the nodes of a task have used, as Prometheus knows it."""

    start: Annotated[int, Note("time of the first values, in seconds since 1970")]
    step: Annotated[int, Note("seconds between two values")]
    series: list[UsageSeries]


class Usage(Document, frozen=True, kw_only=True):
    """The usage of a task's nodes: `top`, `GET /tasks/ID/usage`."""

    task_id: str
    nodes: list[NodeUsage]
    reason: Annotated[str, Note("of REST: why nothing can be measured")] = ""
    history: Annotated[
        UsageHistory | None, Note("of REST with `seconds`, if settings name a Prometheus")
    ] = None
    history_reason: Annotated[str, Note("why Prometheus did not answer")] = ""


def uses(
    nodes: Iterable[NodeStatus], pods: Iterable[Pod], metrics: Iterable[PodMetrics]
) -> list[NodeUsage]:
    pods_by_name = {pod.metadata.name: pod for pod in pods}
    metrics_by_name = {item.metadata.name: item for item in metrics}

    return [
        NodeUsage(
            node=node.index,
            pod=node.pod,
            cpus=float(_count_used(metrics_by_name[node.pod], "cpu")),
            memory_bytes=int(_count_used(metrics_by_name[node.pod], "memory")),
            cpus_asked=float(sum_requests(spec, "cpu")) or None,
            memory_bytes_asked=int(sum_requests(spec, "memory")) or None,
            gpus_asked=sum(int(sum_requests(spec, name)) for name in ACCELERATORS) or None,
        )
        for node in nodes
        if node.pod in metrics_by_name
        for spec in [pods_by_name.get(node.pod, NO_POD).spec]
    ]


def _count_used(metrics: PodMetrics, resource: str) -> Fraction:
    usages = (container.usage or {} for container in metrics.containers or ())
    return sum((amount_of(usage.get(resource)) for usage in usages), Fraction(0))
