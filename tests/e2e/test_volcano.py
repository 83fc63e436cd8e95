"""Volcano with its real CRDs; the tests act as its scheduler."""

import json
from typing import Any

import pytest

from tests.e2e.command import ROOT, Command
from tests.e2e.support import (
    selected_pods,
    until_deleted,
    wait_for_controller,
)
from tests.e2e.volcano import alone, volcano

__all__ = ["alone", "volcano"]

KIND = "podgroup.scheduling.volcano.sh"
GROUP = f"{KIND}/gang-volcano1"
TASK = """
name: gang
num_nodes: 2
resources: {cpus: 500m, memory: 100Mi, image_id: 'busybox:1.36'}
run: sleep 300
"""


def submit(sky: Command, *flags: str, task_id: str = "volcano1") -> str:
    done = sky("submit", "-", "--backend", "volcano", "-d", "--id", task_id, *flags, stdin=TASK)
    assert done.returncode == 0, done.stderr
    return done.stderr


def set_status(kubectl: Command, phase: str, message: str) -> None:
    """Set the status of the PodGroup as the scheduler does."""
    condition = {"type": "Unschedulable", "status": "True", "message": message}
    body = json.dumps({"status": {"phase": phase, "conditions": [condition]}})
    done = kubectl("patch", GROUP, "--type=merge", "-p", body)
    assert done.returncode == 0, done.stderr


@pytest.mark.practice_only
@pytest.mark.usefixtures("volcano")
def test_submit_volcano_creates_pod_group_and_reports_queue(sky: Command, kubectl: Command) -> None:
    assert "gang scheduler" not in submit(sky, "--ports", "80")
    group = kubectl.json("get", GROUP)
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"] == {"cpu": "1", "memory": "200Mi"}
    owners = {owner["name"] for owner in group["metadata"]["ownerReferences"]}
    assert owners == {"gang-volcano1-node-0", "gang-volcano1-node-1"}
    assert "gang scheduler" not in submit(sky, "--ports", "80")
    assert selected_pods(kubectl, "gang-volcano1-ports") == ["gang-volcano1-node-0"]

    metadata = sky.json("status", "volcano1")["metadata"]
    assert metadata["backend"] == "volcano"
    assert metadata["note"] == "node-0: Unseen"
    full = "queue resource quota insufficient: insufficient cpu"
    set_status(kubectl, "Pending", full)
    assert sky.json("status", "volcano1")["metadata"]["detailed_status"] == "queued"
    output = sky("status", "volcano1").stdout
    assert f"PodGroup gang-volcano1 is Pending in Volcano's queue default: {full}" in output
    output = " ".join(sky("doctor", "volcano1").stdout.split())
    assert f"queue default has not admitted the task: {full}" in output
    set_status(kubectl, "Inqueue", "2/2 tasks in gang unschedulable")
    output = sky("doctor", "volcano1").stdout
    assert "2 nodes" in output and " start together; " in output

    assert sky("stop", "volcano1").returncode == 0
    until_deleted(kubectl, "volcano1")
    assert kubectl("wait", "--for=delete", GROUP, "--timeout=30s").returncode == 0


def pods(kubectl: Command, task_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    return items


def admit(kubectl: Command, namespace: str, task_id: str) -> None:
    """Act as Volcano's scheduler: wait for all pods of the group and bind them at once."""
    wait_for_controller(lambda: kubectl("get", f"{KIND}/gang-{task_id}").returncode == 0)
    group = kubectl.json("get", f"{KIND}/gang-{task_id}")
    wait_for_controller(lambda: len(pods(kubectl, task_id)) == group["spec"]["minMember"])
    (node, *_) = kubectl.json("get", "nodes")["items"]

    for pod in pods(kubectl, task_id):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert "nodeName" not in pod["spec"], "no other scheduler binds the pod"
        name = pod["metadata"]["name"]
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        target = {"target": {"kind": "Node", "name": node["metadata"]["name"]}}
        where = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        done = kubectl("create", "--raw", where, "-f", "-", stdin=json.dumps(binding | target))
        assert done.returncode == 0, done.stderr

    running = ("--type=merge", "-p", '{"status": {"phase": "Running"}}')
    assert kubectl("patch", f"{KIND}/gang-{task_id}", *running).returncode == 0


@pytest.mark.usefixtures("volcano")
def test_submit_volcano_bound_gang_runs_to_completion(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    script = "name: gang\nnum_nodes: 2\nrun: echo $NODE_RANK of $NUM_NODES\n"
    flags = ("--backend", "volcano", "--id", "volcano5")
    process = sky.start("submit", sky.write("task.yaml", script), *flags)
    admit(kubectl, namespace, "volcano5")
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err

    expected = [f"node-{rank} | {rank} of 2" for rank in range(2)]
    assert sorted(out.splitlines()[1:]) == expected
    assert sky("logs", "volcano5", "--by-node").stdout.splitlines() == expected
    assert sky("wait", "volcano5").stdout == "task/volcano5 (gang) completed\n"

    rows = sky("list").stdout.splitlines()
    assert rows[1].split()[:4] == ["volcano5", "gang", "completed", "2/2"]
    assert sky("stop", "volcano5").stdout == "task/volcano5 (gang) stopped\n"

    until_deleted(kubectl, "volcano5")
    wait_for_controller(lambda: kubectl("get", f"{KIND}/gang-volcano5").returncode != 0)


@pytest.mark.practice_only
@pytest.mark.usefixtures("volcano")
def test_submit_volcano_example_is_accepted_by_server(sky: Command) -> None:
    example = str(ROOT / "examples" / "19-volcano.yaml")
    flags = ("--queue", "", "--dry-run=server")
    done = sky("submit", example, *flags)
    assert done.returncode == 0, done.stderr
