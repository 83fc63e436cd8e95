"""High-speed networks between GPU nodes: providers, devices and variables."""

import pytest
from msgspec.structs import replace

from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec.task import Accelerator, Resources, Task
from kubectl_sky.words.facts import ClusterNode, Facts
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_notes, make_plan, make_task

H100 = Accelerator("H100", 4)
TASK = make_task(2, Resources(accelerator=H100, fast=True))
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def facts(label: str, gpus: int = 8, **offered: str) -> Facts:
    devices = {name.replace("__", "/").replace("_DOT_", "."): n for name, n in offered.items()}
    sizes = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus)} | devices
    return replace(FACTS, cluster_nodes=(ClusterNode(PRODUCT | {label: "x"}, sizes),))


def network_notes(task: Task, known: Facts) -> list[str]:
    return [note for note in make_notes(task, known, Settings()) if note.startswith("network_tier")]


def nccl(plan: Plan) -> dict[str, str]:
    return {name: value for name, value in plan.env.items() if name.startswith(("NCCL_", "FI_"))}


COREWEAVE = facts("ib.coreweave.cloud/fabric", rdma__ib="1k")
AWS = facts("topology.k8s.aws/zone-id", vpc_DOT_amazonaws_DOT_com__efa="32")
TOGETHER = facts("node-role.together.ai/gpu", nvidia_DOT_com__rdma_ib="8")
NEBIUS = facts("nebius.com/gpu-name")


@pytest.mark.parametrize(
    ("known", "devices", "variables"),
    [
        (COREWEAVE, {"rdma/ib": "1"}, {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "ibp"}),
        (AWS, {"vpc.amazonaws.com/efa": "16"}, {"FI_PROVIDER": "efa"}),
        (TOGETHER, {"nvidia.com/rdma_ib": "4"}, {"NCCL_IB_HCA": "mlx5"}),
        (NEBIUS, {}, {"NCCL_IB_HCA": "mlx5"}),
    ],
)
def test_network_tier_best_adds_devices_and_variables_of_provider(
    known: Facts, devices: dict[str, str], variables: dict[str, str]
) -> None:
    plan = make_plan(TASK, known)
    assert plan.limits == {"nvidia.com/gpu": "4"} | devices
    assert nccl(plan) == variables
    assert plan.topology_key == ("topology.kubernetes.io/zone" if known is AWS else None)
    (note,) = network_notes(TASK, known)
    assert note.startswith("network_tier: best, as ")
    assert all(f"{name}: {count}" in note for name, count in devices.items())


def test_network_variables_of_user_override_defaults() -> None:
    plan = make_plan(replace(TASK, envs={"NCCL_IB_HCA": "mine"}), NEBIUS)
    assert nccl(plan) == {"NCCL_IB_HCA": "mine"}


def test_network_single_node_has_no_topology_key() -> None:
    assert make_plan(replace(TASK, num_nodes=1), AWS).topology_key is None


NOTHING = {
    "no cluster node with these GPUs has": (
        facts("node.kubernetes.io/instance-type"),
        facts("ib.coreweave.cloud/fabric"),  # its device plugin is missing
        facts("topology.k8s.aws/zone-id", vpc_DOT_amazonaws_DOT_com__efa="0"),
        facts("nebius.com/gpu-name", gpus=2),
    ),
    "depends on the cluster nodes": (FACTS,),
}


@pytest.mark.parametrize("words", NOTHING)
def test_network_tier_without_fast_network_adds_nothing(words: str) -> None:
    for known in NOTHING[words]:
        plan = make_plan(TASK, known)
        assert (plan.network.name, nccl(plan)) == ("", {})
        assert plan.limits == {"nvidia.com/gpu": "4"}
        (note,) = network_notes(TASK, known)
        assert words in note


def test_network_tier_without_request_or_gpus_is_ignored() -> None:
    task = make_task(2, Resources(accelerator=H100))
    assert (make_plan(task, COREWEAVE).network.name, network_notes(task, COREWEAVE)) == ("", [])
    task = make_task(2, Resources(fast=True))
    assert make_plan(task, COREWEAVE).network.name == ""
    assert network_notes(task, COREWEAVE) == ["network_tier: ignored for a task without GPUs"]
