"""GPUs of a DRA driver: hand-made DeviceClass and ResourceSlices of cluster nodes that kwok has."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import kwok
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import wait_for_controller

DRIVER = "gpu.example.com"
PRODUCTS = {"dra-h100": ("NVIDIA H100 80GB HBM3", 4), "dra-a100": ("NVIDIA A100-SXM4-40GB", 2)}
TASK = "name: train\nresources: {{accelerators: '{}', cpus: 1, memory: 1}}\nrun: sleep 300\n"


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: its scheduler allocates devices, without a driver."""
    return real_cluster


@pytest.fixture
def devices(cluster: Cluster, kubectl: Command, tmp_path: Path) -> Iterator[None]:
    """Two cluster nodes with devices, and the DeviceClass that gives them nvidia.com/gpu."""
    with kwok.running(cluster, tmp_path):
        items = [device_class("nvidia.com/gpu")]
        for name, (product, count) in PRODUCTS.items():
            items += [node(name), resource_slice(name, product, count)]
        text = "\n---\n".join(map(json.dumps, items))
        try:
            done = kubectl("create", "-f", "-", stdin=text)
            assert done.returncode == 0, done.stderr
            ready = ("wait", "node", "-l", "type=kwok", "--for=condition=Ready", "--timeout=60s")
            assert kubectl(*ready).returncode == 0
            yield
        finally:
            kubectl("delete", "jobs,pods", "--all", "--wait=false")
            kubectl("delete", "deviceclass", DRIVER)
            kubectl("delete", "resourceslice", *PRODUCTS)
            kubectl("delete", "node", *PRODUCTS)


def device_class(resource: str | None) -> dict[str, Any]:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": resource}
    metadata = {"name": DRIVER}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": metadata, "spec": spec}


API = "resource.k8s.io/v1"


def node(name: str) -> dict[str, Any]:
    """A cluster node without labels of GPUs; only tasks with GPUs tolerate its taint."""
    size = {"cpu": "16", "memory": "64Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**kwok.LABELS, "kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"capacity": size, "allocatable": size},
    }


def resource_slice(name: str, product: str, count: int) -> dict[str, Any]:
    """What a driver publishes of a cluster node; a MIG device is not of the DeviceClass."""
    types = ["gpu"] * count + ["mig"]
    listed = [
        {
            "name": f"gpu-{number}",
            "attributes": {"productName": {"string": product}, "type": {"string": type_}},
        }
        for number, type_ in enumerate(types)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": listed}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def submit(sky: Command, task_id: str, gpus: str, more: str = "") -> str:
    """Submit a task; return the notes."""
    done = sky("submit", "-", "-d", "--id", task_id, stdin=TASK.format(gpus) + more)
    assert done.returncode == 0, done.stderr
    return done.stderr


def finding(sky: Command, task_id: str) -> str:
    """Return what the first finding about a task says, once the scheduler has tried it."""
    wait_for_controller(lambda: bool(sky.json("doctor", task_id)["findings"]))
    return str(sky.json("doctor", task_id)["findings"][0]["what"])


def used(sky: Command) -> dict[str, list[Any]]:
    """Return model, resource, total and used number of GPUs, by cluster node."""
    keys = ("accelerator", "resource", "total", "used")
    machines = sky.json("gpus")["machines"]
    return {item["node"]: [item[key] for key in keys] for item in machines}


def test_gpus_of_resource_slices_are_counted_allocated_and_explained(
    devices: None, sky: Command, kubectl: Command
) -> None:
    """The cluster nodes have neither labels nor a device plugin."""
    gpu = "nvidia.com/gpu"
    found = used(sky)
    assert (found["dra-h100"], found["dra-a100"]) == (["H100", gpu, 4, 0], ["A100", gpu, 2, 0])
    assert "no cluster node" not in submit(sky, "first001", "H100:3")
    wait_for_controller(lambda: sky.json("status", "first001")["status"] == "running")
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=first001")["items"]
    assert pod["spec"]["nodeName"] == "dra-h100"
    assert pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    wait_for_controller(lambda: used(sky)["dra-h100"] == ["H100", gpu, 4, 3])
    assert {"tester": 3} in [item["users"] for item in sky.json("gpus")["machines"]]

    submit(sky, "second02", "H100:2")
    assert "a node requests 2; cluster nodes have up to 4, which is in use" in finding(
        sky, "second02"
    )
    note = "no cluster node has an L4; there are A100 (2), H100 (4); the task waits for one"
    assert note in submit(sky, "third003", "L4:1")
    assert "no cluster node has an L4" in finding(sky, "third003")


def test_doctor_claim_of_missing_device_class_and_of_too_many_devices(
    devices: None, sky: Command, kubectl: Command
) -> None:
    """A task may name ResourceClaims by itself; without an extended resource it has to."""
    patch = ("--type=merge", "-p", json.dumps({"spec": {"extendedResourceName": None}}))
    assert kubectl("patch", "deviceclass", DRIVER, *patch).returncode == 0
    assert used(sky)["dra-h100"] == ["H100", DRIVER, 5, 0]
    assert f"tasks cannot request the devices of {DRIVER}" in sky("gpus").stderr

    claims = [{"name": "gpu", "resourceClaimName": "nowhere"}]
    config = {"config": {"kubernetes": {"pod_config": {"spec": {"resourceClaims": claims}}}}}
    task = {"name": "train", "run": "sleep 300", **config}
    done = sky("submit", "-", "-d", "--id", "nowhere0", stdin=json.dumps(task))
    assert done.returncode == 0, done.stderr

    for name, class_name, count in (("few", DRIVER, 3), ("many", DRIVER, 9), ("other", "x", 1)):
        exactly = {"deviceClassName": class_name, "count": count}
        requests = [{"name": "gpu", "exactly": exactly}]
        item = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name}}
        item["spec"] = {"devices": {"requests": requests}}
        assert kubectl("create", "-f", "-", stdin=json.dumps(item)).returncode == 0
        claims = [{"name": "gpu", "resourceClaimName": name}]
        tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        spec = {"resourceClaims": claims, "tolerations": tolerations}
        config = {"config": {"kubernetes": {"pod_config": {"spec": spec}}}}
        task = {"name": "train", "run": "sleep 300", **config}
        done = sky("submit", "-", "-d", "--id", f"{name:0<8}", stdin=json.dumps(task))
        assert done.returncode == 0, done.stderr
    wait_for_controller(lambda: used(sky)["dra-h100"] == ["H100", DRIVER, 5, 3])
    assert finding(sky, "many0000").startswith(
        f'ResourceClaim "many" is not allocated: it requests 9 of DeviceClass "{DRIVER}"'
    )
    assert finding(sky, "other000") == 'DeviceClass "x" not found'
    assert finding(sky, "nowhere0") == 'ResourceClaim "nowhere" not found'
