"""The high-speed network between GPU nodes: the settings of each provider."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from kubectl_sky.plan.placement import Device, Placement, meets
from kubectl_sky.spec import quantity
from kubectl_sky.words.facts import ClusterNode, Facts

_MELLANOX = {
    "NCCL_IB_HCA": "mlx5",
    "UCX_NET_DEVICES": ",".join(f"mlx5_{port}:1" for port in range(8)),
}
_COREWEAVE = {
    "NCCL_SOCKET_IFNAME": "eth0",
    "NCCL_IB_HCA": "ibp",
    "UCX_TLS": "tcp",
    "UCX_NET_DEVICES": "eth0",
}


class HighSpeedNetwork(Struct, frozen=True):
    """Settings of a provider's high-speed network: variables, devices, zone rule.

    `one_zone` means that all nodes must run in one zone. Users of the network need permission to
    lock memory (IPC_LOCK). An empty name means no network.
    """

    name: str = ""
    env: Mapping[str, str] = {}
    resources: Mapping[str, str] = {}
    one_zone: bool = False


class _Provider(Struct, frozen=True):
    """A provider, recognized by the prefixes of its node labels.

    `share` computes a node's share of the devices of a cluster node.
    """

    name: str
    labels: tuple[str, ...]
    env: Mapping[str, str]
    resource: str | None = None
    share: Callable[[Device, ClusterNode, str], int] = lambda device, cluster_node, resource: 1
    one_zone: bool = False


def _devices_by_share(device: Device, cluster_node: ClusterNode, resource: str) -> int:
    """Return devices in proportion to the requested GPUs, rounded down."""
    gpus = _amount(cluster_node, device.resource)
    available = _amount(cluster_node, resource)
    return int(device.count * available / gpus)


# The same labels, variables and devices as in SkyPilot (sky/provision/kubernetes/utils.py).
_PROVIDERS = (
    _Provider("Nebius", ("nebius.com/",), _MELLANOX),
    _Provider("CoreWeave", ("ib.coreweave.cloud/",), _COREWEAVE, "rdma/ib"),
    _Provider(
        "Together",
        ("node-role.together.ai/",),
        _MELLANOX,
        "nvidia.com/rdma_ib",
        lambda device, cluster_node, resource: device.count,
    ),
    _Provider(
        "AWS",
        ("k8s.io/cloud-provider-aws", "topology.k8s.aws/", "topology.ebs.csi.aws.com/"),
        {"FI_PROVIDER": "efa"},
        "vpc.amazonaws.com/efa",
        _devices_by_share,
        one_zone=True,
    ),
)


def find_network(placement: Placement, facts: Facts) -> HighSpeedNetwork:
    """Return the network settings for a task that requests the best network tier."""
    device = placement.device
    if not placement.resources.fast or device is None:
        return HighSpeedNetwork()
    for cluster_node in facts.cluster_nodes:
        fits = not placement.terms or meets(placement.terms, cluster_node)
        if not fits or _amount(cluster_node, device.resource) < device.count:
            continue
        for provider in _PROVIDERS:
            resources = _available_devices(provider, device, cluster_node)
            if resources is not None:
                return HighSpeedNetwork(provider.name, provider.env, resources, provider.one_zone)
    return HighSpeedNetwork()


def notes(placement: Placement, facts: Facts) -> Iterator[str]:
    """Yield a note on what is added for the network, or why nothing is."""
    if not placement.resources.fast:
        return
    network = find_network(placement, facts)
    if network.name:
        devices = "".join(f"{name}: {count}, " for name, count in network.resources.items())
        additions = f"{devices}{', '.join(network.env)} and the right to lock memory (IPC_LOCK)"
        yield f"network_tier: best, as {network.name} has it: {additions}"
    elif placement.device is None:
        yield "network_tier: ignored for a task without GPUs"
    elif not facts.cluster_nodes:
        yield "network_tier: depends on the cluster nodes; submit decides"
    else:
        providers = ", ".join(provider.name for provider in _PROVIDERS)
        yield f"network_tier: no cluster node with these GPUs has a fast network of {providers}"


def _available_devices(
    provider: _Provider, device: Device, cluster_node: ClusterNode
) -> Mapping[str, str] | None:
    """Return the devices to request on a provider's cluster node.

    None if it is not the provider's, or does not have enough devices.
    """
    if not any(label.startswith(provider.labels) for label in cluster_node.labels):
        return None
    resource = provider.resource
    if resource is None:
        return {}
    count = provider.share(device, cluster_node, resource)
    return {resource: str(count)} if 0 < count <= _amount(cluster_node, resource) else None


def _amount(cluster_node: ClusterNode, resource: str) -> Fraction:
    return quantity.quantity(cluster_node.allocatable.get(resource, "0"))
