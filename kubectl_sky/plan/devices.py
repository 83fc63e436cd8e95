"""The accelerators that DRA drivers publish in ResourceSlices, by cluster node."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kubectl_sky.plan import accelerators

Object = Mapping[str, Any]

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


def read_devices(classes: Sequence[Object], slices: Iterable[Object]) -> list[Device]:
    """Return the devices that are accelerators: by their DeviceClass, or as they name a product."""
    pools: dict[tuple[str, str], list[Object]] = {}
    for spec in (item["spec"] for item in slices):
        pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
    devices = [
        device
        for pool, specs in pools.items()
        for spec in specs
        if spec["pool"]["generation"] == max(it["pool"]["generation"] for it in specs)
        for item in spec.get("devices") or ()
        for device in _device(classes, pool, spec, item)
    ]
    mapped = {device.key[0] for device in devices if device.resource != device.key[0]}
    # Others of such a driver are parts of the same GPUs, or not for tasks.
    return [it for it in devices if it.resource != it.key[0] or it.resource not in mapped]


def _device(
    classes: Sequence[Object], pool: tuple[str, str], spec: Object, item: Object
) -> Iterator[Device]:
    driver = pool[0]
    node = spec.get("nodeName") or item.get("nodeName")
    attributes = {
        key if "/" in key else f"{driver}/{key}": next(iter(value.values()), None)
        for key, value in (item.get("attributes") or {}).items()
    }

    product = next((v for k, v in attributes.items() if k.endswith("/productName")), None)
    resources = (
        name
        for device_class in classes
        if (name := device_class["spec"].get("extendedResourceName")) in accelerators.RESOURCES
        and _selects(device_class, driver, attributes)
    )
    unmapped = driver if product else ""
    resource = next(resources, unmapped)

    if node and resource:
        model = accelerators.from_product(str(product or ""))
        yield Device((*pool, item["name"]), node, resource, model)


def _selects(device_class: Object, driver: str, attributes: Mapping[str, Any]) -> bool:
    for selector in device_class["spec"].get("selectors") or ():
        expression = (selector.get("cel") or {}).get("expression") or ""
        if _NOT_ONLY_AND.search(expression):
            continue
        if not {*_DOMAIN.findall(expression)} <= {key.partition("/")[0] for key in attributes}:
            return False
        for domain, name, value in _EQUAL.findall(expression):
            if (attributes.get(f"{domain}/{name}") if name else driver) != value:
                return False
    return True


def with_devices(nodes: Iterable[Object], devices: Iterable[Device]) -> list[dict[str, Any]]:
    """Return the cluster nodes with their `devices`, which are allocatable as a device plugin's."""
    by_node: dict[str, list[Device]] = {}
    for device in devices:
        by_node.setdefault(device.node, []).append(device)

    result = []
    for item in nodes:
        own = by_node.get(item["metadata"]["name"], [])
        counts = Counter(device.resource for device in own)
        status = item.get("status") or {}
        plugins = status.get("allocatable") or {}

        sizes = {
            name: str(count)
            for name, count in counts.items()
            if name in accelerators.RESOURCES and plugins.get(name, "0") == "0"
        }

        allocatable = {**plugins, **sizes}
        result.append({**item, "status": {**status, "allocatable": allocatable}, "devices": own})
    return result


def count_models(cluster_node: Object) -> dict[str, int]:
    """Return the devices of a cluster node that tasks can request, by model."""
    return dict(
        Counter(
            device.model
            for device in cluster_node.get("devices") or ()
            if device.model and device.resource in accelerators.RESOURCES
        )
    )
