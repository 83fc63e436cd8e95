"""Programs that save and exit with 0 on SIGTERM: a node that is taken away has not finished."""

import json
from typing import Any

import pytest

from tests.cluster.marks import ON_REAL
from tests.e2e.command import Command
from tests.e2e.kueue import API, made, queue
from tests.e2e.support import create_volume, evict, submit
from tests.polling import eventually

SAVES = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.2; done"
# Its second attempt ends at once.
RESUMES = f"""
name: resumes
resources:
  cpus: 50m
  memory: 32Mi
  image_id: busybox:1.36
  job_recovery: {{max_restarts_on_errors: 1}}
volumes: {{/marks: %s}}
run: |
  if [ -e /marks/been ]; then echo resumed; exit 0; fi
  touch /marks/been
  {SAVES}
"""
STAGES = f"""
name: deploys
---
name: train
resources: {{image_id: busybox:1.36}}
run: "{SAVES}"
---
name: deploy
resources: {{image_id: busybox:1.36}}
run: echo deployed
"""
SLOT = "example.com/slot"


def first_pod(sky: Command, kubectl: Command, task_id: str) -> str:
    """Return the pod of a task whose program can save."""
    eventually(lambda: "ready" in sky("logs", task_id).stdout)
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    return str(pod["metadata"]["name"])


def check_resumed(sky: Command, task_id: str) -> None:
    """Check that the task completes by a second attempt."""
    waited = sky("wait", task_id)
    assert waited.returncode == 0, waited.stderr
    assert sky("logs", task_id).stdout == "resumed\n"


def test_deleted_node_that_saves_is_restarted(sky: Command, kubectl: Command) -> None:
    submit(sky, RESUMES % create_volume(sky, "marks"), "resumes0", "--backend", "indexed")
    pod = first_pod(sky, kubectl, "resumes0")
    done = kubectl("delete", "pod", pod, "--wait=false")
    assert done.returncode == 0, done.stderr
    check_resumed(sky, "resumes0")


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_evicted_node_that_saves_is_restarted(
    sky: Command, kubectl: Command, namespace: str, backend: str
) -> None:
    submit(sky, RESUMES % create_volume(sky, "marks"), "resumes1", "--backend", backend)
    evict(kubectl, namespace, first_pod(sky, kubectl, "resumes1"))
    check_resumed(sky, "resumes1")


ENDS_FIRST = """
name: pair
num_nodes: 2
resources: {image_id: busybox:1.36, job_recovery: failover}
run: |
  echo ready
  [ $SKYPILOT_NODE_RANK = 0 ] || sleep 100
"""


def test_node_that_starts_too_late_to_meet_the_others_fails(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    submit(sky, ENDS_FIRST, "pair0000")
    eventually(lambda: sky.json("status", "pair0000")["metadata"]["succeeded_nodes"] == 1)
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=pair0000,node-idx=1")["items"]
    evict(kubectl, namespace, pod["metadata"]["name"])

    waited = sky("wait", "pair0000", "--continue")
    assert waited.returncode == 4
    cause = "node-1: it started after another node had completed"
    assert cause in waited.stderr
    assert cause in sky("list").stdout
    assert "an array" in sky("doctor", "pair0000").stdout


REFUSED = """
name: refused
resources: {image_id: busybox:1.36, job_recovery: failover}
config:
  kubernetes:
    pod_config:
      spec: {securityContext: {sysctls: [{name: kernel.msgmax, value: "65536"}]}}
run: echo never
"""


@ON_REAL
def test_pod_that_its_cluster_node_refuses_is_tried_again(sky: Command) -> None:
    """The kubelet of the tests allows no such kernel parameter; the scheduler does not know it."""
    submit(sky, REFUSED, "refused0")
    eventually(lambda: "SysctlForbidden; restart 1 follows" in sky("list").stdout)
    eventually(lambda: sky.json("status", "refused0")["metadata"]["restarts"] == 1, seconds=60)
    doctor = sky("doctor", "refused0").stdout
    assert "does not allow what the pod sets: forbidden sysctl" in " ".join(doctor.split())
    assert "--exclude-node" in doctor


def test_nodes_without_addresses_name_each_other(sky: Command) -> None:
    config = "{kubernetes: {pod_config: {spec: {dnsPolicy: Default}}}}"
    task = f"name: lost\nnum_nodes: 2\nconfig: {config}\nrun: echo never\n"
    submit(sky, task, "lost0000")
    missing = "node-1 (no address)"
    eventually(lambda: f"waits to meet {missing}" in sky("list").stdout, seconds=90)
    assert "dnsPolicy" in sky("doctor", "lost0000").stdout
    eventually(lambda: f"kubectl-sky: waiting for {missing}" in sky("logs", "lost0000").stdout)


@ON_REAL
@pytest.mark.usefixtures("jobset")
def test_evicted_node_of_jobset_that_saves_is_restarted(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    submit(sky, RESUMES % create_volume(sky, "marks"), "resumes2", "--backend", "jobset")
    evict(kubectl, namespace, first_pod(sky, kubectl, "resumes2"))
    check_resumed(sky, "resumes2")


def test_evicted_stage_that_saves_does_not_start_next_stage(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    running = sky.start("submit", sky.write("t.yaml", STAGES), "--id", "stages01")
    train = eventually(lambda: sky.json("status", "stages01")["tasks"])[0]["task_id"]
    evict(kubectl, namespace, first_pod(sky, kubectl, train))
    out, err = running.communicate(timeout=120)
    assert running.returncode == 4, err
    assert "deployed" not in out


def priority_class(name: str, value: int) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return kind | {"metadata": {"name": name}, "value": value}


@ON_REAL
def test_preempted_node_that_saves_is_restarted(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    node = kubectl.json("get", "nodes")["items"][0]["metadata"]["name"]
    capacity = json.dumps({"status": {"capacity": {SLOT: "1"}}})
    patched = kubectl("patch", "node", node, "--subresource=status", "-p", capacity)
    assert patched.returncode == 0, patched.stderr

    container = {"name": "main", "resources": {"limits": {SLOT: 1}}}
    config = {"kubernetes": {"pod_config": {"spec": {"containers": [container]}}}}
    script = RESUMES % create_volume(sky, "marks") + f"config: {json.dumps(config)}\n"
    submit(sky, script, "resumes3")
    first_pod(sky, kubectl, "resumes3")
    spec = {
        "priorityClassName": f"{namespace}-high",
        "restartPolicy": "Never",
        "containers": [container | {"image": "busybox:1.36", "command": ["sleep", "2"]}],
    }
    preemptor = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "high"}, "spec": spec}
    made(kubectl, priority_class(f"{namespace}-high", 1000))
    made(kubectl, preemptor)
    check_resumed(sky, "resumes3")
    assert kubectl("delete", "priorityclass", f"{namespace}-high").returncode == 0


@ON_REAL
@pytest.mark.usefixtures("kueue")
def test_node_preempted_by_kueue_that_saves_is_restarted(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    items = queue("gold", namespace, [{"name": "cpu", "nominalQuota": "50m"}])
    items[1]["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
    high = {"apiVersion": API, "kind": "WorkloadPriorityClass", "value": 1000}
    made(kubectl, *items, high | {"metadata": {"name": f"{namespace}-high"}})
    script = (RESUMES % create_volume(sky, "marks")).replace("  memory: 32Mi\n", "")
    submit(sky, script, "resumes4", "--queue", "gold")
    first_pod(sky, kubectl, "resumes4")
    resources = {
        "cpus": 0.05,
        "image_id": "busybox:1.36",
        "priority_class": f"{namespace}-high",
    }
    urgent = {"name": "urgent", "resources": resources, "run": "echo urgent"}
    done = sky("submit", "-", "--queue", "gold", "--id", "urgent01", stdin=json.dumps(urgent))
    assert done.returncode == 0, done.stderr

    check_resumed(sky, "resumes4")
