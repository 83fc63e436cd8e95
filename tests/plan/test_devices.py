"""The devices of ResourceSlices: which are accelerators, and what a task can request."""

from typing import Any

import pytest

from kubectl_sky.plan.devices import count_models, read_devices, with_devices
from kubectl_sky.words.core_objects import Node
from kubectl_sky.words.scheduled_objects import DeviceClass, ResourceSlice
from tests.reading import read_as, read_list

Json = dict[str, Any]
DRIVER = "gpu.example.com"
H100 = "NVIDIA H100 80GB HBM3"


def make_class(expression: str = "", resource: str | None = "nvidia.com/gpu") -> Json:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"spec": {"extendedResourceName": resource, "selectors": selectors}}


def make_slice(*types: str, generation: int = 1, pool: str = "n1", **spec: Any) -> Json:
    """A slice of a cluster node with a device of each type."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"productName": {"string": H100}, "type": {"string": type_}},
        }
        for number, type_ in enumerate(types)
    ]
    pool_spec = {"name": pool, "generation": generation}
    content = {"driver": DRIVER, "pool": pool_spec, "nodeName": pool, "devices": devices} | spec
    return {"spec": content}


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("", 3),
        (f"device.driver == '{DRIVER}'", 3),
        ('device.driver == "other.example.com"', 0),
        (f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'", 2),
        (f"device.attributes['{DRIVER}'].missing == 'gpu'", 0),
        (f"device.attributes['{DRIVER}'].type == 'x' || true", 3),
        (f"device.attributes['{DRIVER}'].productName.matches('H100')", 3),
        ("device.attributes['nic.example.com'].productName.matches('H100')", 0),
        ("device.capacity['x'].memory.compareTo(quantity('8Gi')) >= 0", 3),
    ],
)
def test_read_devices_of_class_follows_comparisons(expression: str, count: int) -> None:
    devices = read_devices(
        [read_as(DeviceClass, make_class(expression))],
        [read_as(ResourceSlice, make_slice("gpu", "gpu", "mig"))],
    )
    requestable = [device for device in devices if device.resource == "nvidia.com/gpu"]
    assert len(requestable) == count


@pytest.mark.parametrize("classes", [[], [make_class(resource=None)], [make_class(resource="x/y")]])
def test_read_devices_without_extended_resource_have_name_of_driver(classes: list[Json]) -> None:
    (device,) = read_devices(
        read_list(DeviceClass, classes), [read_as(ResourceSlice, make_slice("gpu"))]
    )
    assert (device.key, device.node) == ((DRIVER, "n1", "gpu-0"), "n1")
    assert (device.resource, device.model) == (DRIVER, "H100")


def test_read_devices_that_are_no_accelerators_are_left_out() -> None:
    nic = {"name": "nic-0", "attributes": {"dra.net/speed": {"int": 400}}}
    assert read_devices([], [read_as(ResourceSlice, make_slice(devices=[nic]))]) == []
    assert read_devices([], [read_as(ResourceSlice, make_slice("gpu", nodeName=None))]) == []


def test_read_devices_of_driver_that_a_class_selects_others_of_are_left_out() -> None:
    types = f"device.attributes['{DRIVER}'].type == 'gpu'"
    (device,) = read_devices(
        [read_as(DeviceClass, make_class(types))],
        [read_as(ResourceSlice, make_slice("gpu", "mig"))],
    )
    assert (device.key[2], device.resource) == ("gpu-0", "nvidia.com/gpu")


def test_read_devices_of_newest_generation_of_pool_only() -> None:
    slices = [make_slice("gpu", "gpu"), make_slice("gpu", generation=2), make_slice("gpu")]
    assert (
        len(read_devices([read_as(DeviceClass, make_class())], read_list(ResourceSlice, slices)))
        == 1
    )


def test_with_devices_are_allocatable_unless_a_device_plugin_has_them() -> None:
    devices = read_devices(
        [read_as(DeviceClass, make_class())],
        [
            read_as(ResourceSlice, make_slice("gpu", "gpu")),
            read_as(ResourceSlice, make_slice("gpu", pool="n2")),
        ],
    )
    nodes: list[Json] = [
        {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}},
        {"metadata": {"name": "n2"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}},
        {"metadata": {"name": "n3"}},
    ]
    first, second, third = with_devices(read_list(Node, nodes), devices)
    assert first.status.allocatable == {"cpu": "8", "nvidia.com/gpu": "2"}
    assert second.status.allocatable == {"nvidia.com/gpu": "4"}
    assert third.status.allocatable == {}
    assert count_models(first) == {"H100": 2}


def test_count_models_leaves_out_what_tasks_cannot_request() -> None:
    devices = read_devices([], [read_as(ResourceSlice, make_slice("gpu"))])
    (node,) = with_devices([read_as(Node, {"metadata": {"name": "n1"}})], devices)
    assert count_models(node) == {}
