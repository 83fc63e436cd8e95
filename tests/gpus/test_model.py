"""Usage of accelerators by users, and resource usage of nodes."""

from typing import Any

from msgspec.structs import replace

from kubectl_sky.gpus import model
from kubectl_sky.observe import status
from kubectl_sky.plan.devices import Device, DeviceNode, with_devices
from kubectl_sky.words.core_objects import Node, PodMetrics
from kubectl_sky.words.scheduled_objects import ResourceClaim
from tests.builders import make_job, make_pod
from tests.reading import read_as, read_jobs, read_list, read_pod, read_pods

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def make_node(name: str, gpus: int, ready: bool = True, **more: Any) -> Json:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"allocatable": {GPU: str(gpus), "cpu": "8"}, "conditions": [condition]},
    }


def held(count: int, place: str, phase: str = "Running", **labels: str) -> list[model.Holding]:
    pod = make_pod(phase=phase)
    container = {"name": "main", "resources": {"limits": {GPU: str(count)}}}
    pod["spec"] = {"nodeName": place, "containers": [container, {"name": "sidecar"}]}
    if labels:
        pod["metadata"] = {"name": "other", "namespace": "team", "labels": labels}
    return list(filter(None, [model.holding(read_pod(pod))]))


def test_accelerator_nodes_count_used_and_free() -> None:
    nodes = [make_node("a", 8), make_node("b", 4), make_node("c", 2, ready=False)]
    holdings = [
        *held(3, "a"),
        *held(2, "a", app="x"),
        *held(4, "b", "Succeeded"),
        *held(1, ""),
        *held(0, "a"),
    ]

    found = model.accelerator_nodes(read_list(Node, nodes), holdings)
    assert [(one.name, one.model, one.total, one.used, one.free) for one in found] == [
        ("a", "A100", 8, 5, 3),
        ("b", "A100", 4, 0, 4),
        ("c", "A100", 2, 0, 0),
    ]
    assert found[0].users == {"alice": 3, "namespace team": 2}


def test_accelerator_nodes_cordoned_node_has_none_free() -> None:
    (one,) = model.accelerator_nodes([read_as(Node, make_node("a", 8, unschedulable=True))], [])
    assert (one.total, one.free) == (8, 0)


def test_accelerator_nodes_without_right_to_list_pods_are_unknown() -> None:
    (one,) = model.accelerator_nodes([read_as(Node, make_node("a", 8))], None)
    assert (one.used, one.free) == (None, None)


def test_accelerator_nodes_with_lost_gpus_show_users() -> None:
    (one,) = model.accelerator_nodes([read_as(Node, make_node("a", 0))], held(2, "a"))
    assert (one.total, one.used, one.free) == (0, 2, 0)


def test_accelerator_nodes_exclude_nodes_without_gpus() -> None:
    assert model.accelerator_nodes([read_as(Node, make_node("a", 0))], []) == []


def make_dra_node(resource: str = GPU) -> DeviceNode:
    """A cluster node with two devices of a DRA driver, without labels."""
    devices = [Device(("d", "p", f"gpu-{n}"), "a", resource, "H100") for n in range(2)]
    (node,) = with_devices([read_as(Node, make_node("a", 0))], devices)
    return replace(node, metadata=replace(node.metadata, labels={}))


def make_claim(*devices: str, pods: tuple[str, ...] = ()) -> model.Allocation | None:
    results = [{"driver": "d", "pool": "p", "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}}
    reserved = {"reservedFor": [{"name": pod} for pod in pods]}
    metadata = {"name": "claim", "namespace": "default"}
    return model.allocation(
        read_as(ResourceClaim, {"metadata": metadata, "status": status | reserved})
    )


def test_accelerator_nodes_count_devices_of_claims_once() -> None:
    """The scheduler makes a claim for a pod that requests a resource name, too."""
    (holding,) = held(1, "a")
    claim = make_claim("gpu-0", pods=(holding.pod[1],))
    assert claim
    (one,) = model.accelerator_nodes([read_as(Node, make_dra_node())], [holding], [claim])
    assert (one.model, one.total, one.used, one.free) == ("H100", 2, 1, 1)
    assert one.users == {"alice": 1}


def test_accelerator_nodes_claim_of_unknown_pod_is_of_its_namespace() -> None:
    claim = make_claim("gpu-0", "gpu-1", "elsewhere")
    assert claim
    (one,) = model.accelerator_nodes([read_as(Node, make_dra_node("gpu.example.com"))], [], [claim])
    assert (one.resource, one.total, one.used) == ("gpu.example.com", 2, 2)
    assert one.users == {"namespace default": 2}


def test_accelerator_nodes_without_right_to_list_claims_count_pods() -> None:
    (one,) = model.accelerator_nodes([read_as(Node, make_dra_node())], held(1, "a"), None)
    assert (one.total, one.used) == (2, 1)


def test_allocation_of_pending_claim_is_none() -> None:
    assert model.allocation(read_as(ResourceClaim, {"metadata": {"name": "claim"}})) is None


def test_uses_compare_usage_with_requests() -> None:
    pod = make_pod(state={"running": {}})
    requests = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}
    pod["spec"]["containers"] = [{"resources": {"requests": requests}}]
    (task,) = status.tasks(read_jobs([make_job()]), read_pods([pod]))
    metrics = {
        "metadata": {"name": pod["metadata"]["name"]},
        "containers": [
            {"name": "main", "usage": {"cpu": "250m", "memory": "256Mi"}},
            {"name": "proxy", "usage": {"cpu": "1n"}},
        ],
    }
    (use,) = model.uses(task.nodes, [read_pod(pod)], [read_as(PodMetrics, metrics)])
    assert (use.node, use.pod, use.gpus_asked) == (0, pod["metadata"]["name"], 2)
    assert (use.cpus, use.cpus_asked) == (0.250000001, 0.5)
    assert (use.memory_bytes, use.memory_bytes_asked) == (2**28, 2**30)
    assert model.uses(task.nodes, [read_pod(pod)], []) == []
