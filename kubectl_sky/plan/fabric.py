"""The high-speed network between GPU nodes: the settings of each provider."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from kubectl_sky.facts import Facts, Machine
from kubectl_sky.plan.placement import Device, Placement, meets
from kubectl_sky.spec import quantity

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


@dataclass(frozen=True)
class Fabric:
    """Settings of a provider's high-speed network: variables, devices, zone rule.

    `one_zone` means that all nodes must run in one zone. Users of the network need permission to
    lock memory (IPC_LOCK). An empty name means no network.
    """

    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    one_zone: bool = False


@dataclass(frozen=True)
class _Provider:
    """A provider, recognized by the prefixes of its node labels.

    `share` computes a node's share of the devices of a cluster node.
    """

    name: str
    labels: tuple[str, ...]
    env: Mapping[str, str]
    resource: str | None = None
    share: Callable[[Device, Machine, str], int] = lambda device, machine, resource: 1
    one_zone: bool = False


def _each(device: Device, machine: Machine, resource: str) -> int:
    """Return one device per GPU."""
    return device.count


def _part(device: Device, machine: Machine, resource: str) -> int:
    """Return devices in proportion to the requested GPUs, rounded down."""
    gpus, available = _amount(machine, device.resource), _amount(machine, resource)
    return int(device.count * available / gpus)


# The same labels, variables and devices as in SkyPilot (sky/provision/kubernetes/utils.py).
_PROVIDERS = (
    _Provider("Nebius", ("nebius.com/",), MappingProxyType(_MELLANOX)),
    _Provider("CoreWeave", ("ib.coreweave.cloud/",), MappingProxyType(_COREWEAVE), "rdma/ib"),
    _Provider(
        "Together",
        ("node-role.together.ai/",),
        MappingProxyType(_MELLANOX),
        "nvidia.com/rdma_ib",
        _each,
    ),
    _Provider(
        "AWS",
        ("k8s.io/cloud-provider-aws", "topology.k8s.aws/", "topology.ebs.csi.aws.com/"),
        MappingProxyType({"FI_PROVIDER": "efa"}),
        "vpc.amazonaws.com/efa",
        _part,
        one_zone=True,
    ),
)


def fabric(placement: Placement, facts: Facts) -> Fabric:
    """Return the network settings for a task that requests the best network tier."""
    device = placement.device
    if not placement.resources.fast or device is None:
        return Fabric()
    for machine in _machines(placement, device, facts):
        for provider in _PROVIDERS:
            resources = _offered(provider, device, machine)
            if resources is not None:
                return Fabric(provider.name, provider.env, resources, provider.one_zone)
    return Fabric()


def notes(placement: Placement, facts: Facts) -> Iterator[str]:
    """Yield a note on what is added for the network, or why nothing is."""
    if not placement.resources.fast:
        return
    network = fabric(placement, facts)
    if network.name:
        devices = "".join(f"{name}: {count}, " for name, count in network.resources.items())
        additions = f"{devices}{', '.join(network.env)} and the right to lock memory (IPC_LOCK)"
        yield f"network_tier: best, as {network.name} has it: {additions}"
    elif placement.device is None:
        yield "network_tier: ignored for a task without GPUs"
    elif not facts.machines:
        yield "network_tier: depends on the cluster nodes; submit decides"
    else:
        providers = ", ".join(provider.name for provider in _PROVIDERS)
        yield f"network_tier: no cluster node with these GPUs has a fast network of {providers}"


def _machines(placement: Placement, device: Device, facts: Facts) -> Iterator[Machine]:
    """Yield the cluster nodes that could hold the task's GPUs."""
    for machine in facts.machines:
        fits = not placement.terms or meets(placement.terms, machine)
        if fits and _amount(machine, device.resource) >= device.count:
            yield machine


def _offered(provider: _Provider, device: Device, machine: Machine) -> Mapping[str, str] | None:
    """Return the devices to request on a provider's cluster node.

    None if it is not the provider's, or does not have enough devices.
    """
    if not any(label.startswith(provider.labels) for label in machine.labels):
        return None
    resource = provider.resource
    if resource is None:
        return {}
    count = provider.share(device, machine, resource)
    return {resource: str(count)} if 0 < count <= _amount(machine, resource) else None


def _amount(machine: Machine, resource: str) -> Fraction:
    return quantity.quantity(machine.allocatable.get(resource, "0"))
