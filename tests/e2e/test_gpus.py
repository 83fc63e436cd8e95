"""Tasks that request GPUs by name, on clusters with and without GPU labels."""

import json

import pytest

from tests.e2e.command import Command, submitted

HEAD = "name: gpus\nrun: echo gpus $SKYPILOT_NUM_GPUS_PER_NODE\n"
PRODUCT = "nvidia.com/gpu.product"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

# Every field that constrains scheduling.
WRITTEN = """
resources:
  accelerators: [A100:2, H100:2]
  use_spot: true
  disk_size: 1
  priority_class: high
  autostop: {down: true, idle_minutes: 10}
"""
SLICE = "resources: {accelerators: tpu-v6e-8}\n"


def products(kubectl: Command) -> set[str]:
    nodes = kubectl.json("get", "nodes")["items"]
    return {node["metadata"]["labels"].get(PRODUCT, "") for node in nodes} - {""}


def test_submit_named_gpu_is_scheduled_on_matching_nodes(sky: Command, kubectl: Command) -> None:
    resources = "resources: {accelerators: {A100: 2, V100: 2}, disk_size: 1}\n"
    done = sky("submit", "-", stdin=HEAD + resources)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["gpus 2"]
    job = kubectl.json("get", "job", f"gpus-{submitted(done)}")
    pod = job["spec"]["template"]["spec"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod[
        "tolerations"
    ]
    if products(kubectl):
        (term,) = pod["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        (rule,) = term["matchExpressions"]
        assert (rule["key"], rule["operator"]) == (PRODUCT, "In")
        assert set(rule["values"]) <= products(kubectl), "only existing labels"
    else:
        assert "affinity" not in pod
        assert "cluster nodes have no GPU labels" in done.stderr


def test_render_gpu_resources_are_accepted_by_server(sky: Command, kubectl: Command) -> None:
    for resources in (WRITTEN, SLICE):
        rendered = sky("render", "-", stdin=HEAD + resources)
        assert rendered.returncode == 0, rendered.stderr
        done = kubectl(
            "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered.stdout
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.practice_only
def test_submit_gpu_without_right_to_list_nodes_uses_all_known_labels(sky: Command) -> None:
    flags = ("--context", "bob", "--dry-run=client", "-o", "json")
    done = sky("submit", "-", *flags, stdin=HEAD + "resources: {accelerators: A100}\n")
    assert done.returncode == 0, done.stderr
    (job,) = [item for item in json.loads(done.stdout)["items"] if item["kind"] == "Job"]
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert len(affinity[REQUIRED]["nodeSelectorTerms"]) == 6


@pytest.mark.practice_only
def test_gpus_running_task_is_counted(sky: Command, kubectl: Command) -> None:
    nodes = kubectl.json("get", "nodes")["items"]
    offered = sum(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in nodes)
    assert offered
    text = HEAD.replace("echo", "sleep 60; echo") + "resources: {accelerators: A100:2}\n"
    done = sky("submit", "-", "--detach", stdin=text)
    assert done.returncode == 0, done.stderr
    assert kubectl(
        "wait", "pod", "-l", f"task-id={submitted(done)}", "--for=jsonpath=.spec.nodeName"
    )
    machines = sky.json("gpus")["machines"]
    assert sum(machine["total"] for machine in machines) == offered
    assert sum(machine["users"].get("tester", 0) for machine in machines) >= 2
    output = sky("gpus", "--free").stdout
    assert "ACCELERATOR" in output and "MOST ON ONE" in output and "tester" in output


@pytest.mark.practice_only
def test_top_without_metrics_api_is_cluster_error(sky: Command) -> None:
    done = sky("submit", "-", stdin="run: echo well\n")
    top = sky("top", submitted(done))
    assert (top.returncode, top.stdout) == (3, "")
    assert "no metrics API" in top.stderr and "metrics-server" in top.stderr
