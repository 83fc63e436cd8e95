"""The accelerators that DRA drivers publish in ResourceSlices, by cluster node."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan import accelerators
from kubectl_sky.words.core_objects import Node
from kubectl_sky.words.scheduled_objects import (
    DeviceClass,
    ResourceSlice,
    ResourceSliceSpec,
    SliceDevice,
)

# Comparisons of CEL that a device must meet; other expressions are not read.
_EQUAL = re.compile(
    r"""device\.(?:driver|attributes\[["']([^"']+)["']\]\.(\w+)) *== *["']([^"']+)["']"""
)
_DOMAIN = re.compile(r"""attributes\[["']([^"']+)["']\]""")
_NOT_ONLY_AND = re.compile(r"\|\||!\(|\?")


class Device(Struct, frozen=True):
    """A device of a cluster node. `key` is its driver, pool and name, as claims refer to it.

    `resource` is the extended resource that a DeviceClass gives it. If no DeviceClass does, tasks
    cannot request it, and it is the name of the driver.
    """

    key: tuple[str, str, str]
    node: str
    resource: str
    model: str


class DeviceNode(Node, frozen=True, kw_only=True):
    """A cluster node with the devices of its DRA drivers."""

    devices: tuple[Device, ...] = ()


def devices_of(cluster_node: Node) -> tuple[Device, ...]:
    """Return the devices of DRA drivers; none if they have not been read."""
    return cluster_node.devices if isinstance(cluster_node, DeviceNode) else ()


def read_devices(classes: Sequence[DeviceClass], slices: Iterable[ResourceSlice]) -> list[Device]:
    """Return the devices that are accelerators: by their DeviceClass, or as they name a product."""
    pools: dict[tuple[str, str], list[ResourceSliceSpec]] = {}
    for spec in (item.spec for item in slices):
        pools.setdefault((spec.driver, spec.pool.name), []).append(spec)
    devices = [
        device
        for pool, specs in pools.items()
        for spec in specs
        if spec.pool.generation == max(it.pool.generation for it in specs)
        for item in spec.devices or ()
        for device in _device(classes, pool, spec, item)
    ]
    mapped = {device.key[0] for device in devices if device.resource != device.key[0]}
    # Others of such a driver are parts of the same GPUs, or not for tasks.
    return [it for it in devices if it.resource != it.key[0] or it.resource not in mapped]


def _device(
    classes: Sequence[DeviceClass],
    pool: tuple[str, str],
    spec: ResourceSliceSpec,
    item: SliceDevice,
) -> Iterator[Device]:
    driver = pool[0]
    node = spec.node_name or item.node_name
    attributes = {
        key if "/" in key else f"{driver}/{key}": next(iter(value.values()), None)
        for key, value in (item.attributes or {}).items()
    }

    product = next((v for k, v in attributes.items() if k.endswith("/productName")), None)
    resources = (
        name
        for device_class in classes
        if (name := device_class.spec.extended_resource_name) in accelerators.RESOURCES
        and _selects(device_class, driver, attributes)
    )
    unmapped = driver if product else ""
    resource = next(resources, unmapped)

    if node and resource:
        model = accelerators.from_product(str(product or ""))
        yield Device((*pool, item.name), node, resource, model)


def _selects(device_class: DeviceClass, driver: str, attributes: Mapping[str, Any]) -> bool:
    for selector in device_class.spec.selectors or ():
        expression = selector.cel.expression if selector.cel else ""
        if _NOT_ONLY_AND.search(expression):
            continue
        if not {*_DOMAIN.findall(expression)} <= {key.partition("/")[0] for key in attributes}:
            return False
        for domain, name, value in _EQUAL.findall(expression):
            if (attributes.get(f"{domain}/{name}") if name else driver) != value:
                return False
    return True


def with_devices(nodes: Iterable[Node], devices: Iterable[Device]) -> list[DeviceNode]:
    """Return the cluster nodes with their `devices`, which are allocatable as a device plugin's."""
    by_node: dict[str, list[Device]] = {}
    for device in devices:
        by_node.setdefault(device.node, []).append(device)

    result = []
    for item in nodes:
        own = by_node.get(item.metadata.name, [])
        counts = Counter(device.resource for device in own)
        plugins = item.status.allocatable

        sizes = {
            name: str(count)
            for name, count in counts.items()
            if name in accelerators.RESOURCES and plugins.get(name, "0") == "0"
        }

        status = replace(item.status, allocatable={**plugins, **sizes})
        result.append(
            DeviceNode(metadata=item.metadata, spec=item.spec, status=status, devices=tuple(own))
        )
    return result


def count_models(cluster_node: Node) -> dict[str, int]:
    """Return the devices of a cluster node that tasks can request, by model."""
    return dict(
        Counter(
            device.model
            for device in devices_of(cluster_node)
            if device.model and device.resource in accelerators.RESOURCES
        )
    )
