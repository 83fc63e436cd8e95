"""Gangs of Kubernetes' own scheduler: all nodes start together or none, also in one rack.

The cluster nodes n1 and n2 are in the rack r1, n3 is in r2; each has 4 CPUs.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.polling import eventually

pytestmark = pytest.mark.cluster

FOUR = "name: train\nnum_nodes: 4\nresources: {cpus: 3}\nrun: sleep 600\n"
RACK = f"{FOUR}config: {{kubectl_sky: {{topology: rack}}}}\n"
WAITS = "4 nodes \N{MULTIPLICATION SIGN} 3 CPUs start together; 3 fit now: n1, n2, n3 have 4 CPUs"
EVERYTHING = "podgroups,jobs,pods,configmaps,secrets,services"


@pytest.fixture
def cluster(gated_cluster: Cluster) -> Cluster:
    return gated_cluster


@pytest.fixture(autouse=True)
def stop(sky: Command, kubectl: Command) -> Iterator[None]:
    """Stop all tasks, of which nothing may remain."""
    yield
    assert sky("stop", "--all", "--yes").returncode in (0, 2)
    eventually(lambda: not remaining(kubectl), message=lambda: remaining(kubectl))


def remaining(kubectl: Command) -> list[str]:
    """Return the objects of tasks, without the scripts that tasks share."""
    items = kubectl.json("get", EVERYTHING, "-l", "skypilot-task")["items"]
    return [f"{item['kind']}/{item['metadata']['name']}" for item in items]


def submit(sky: Command, text: str, *flags: str) -> str:
    done = sky("submit", "-", "--detach", *flags, stdin=text)
    assert done.returncode == 0, done.stderr
    return submitted(done)


def hosts(kubectl: Command, task_id: str) -> list[str]:
    """Return where the pods of a task run, and "" for each that does not."""
    pods = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    return sorted(pod["spec"].get("nodeName", "") for pod in pods)


def group(kubectl: Command, task_id: str) -> Any:
    (item,) = kubectl.json("get", "podgroups", "-l", f"task-id={task_id}")["items"]
    return item


def until_unschedulable(kubectl: Command, task_id: str) -> None:
    def unschedulable() -> bool:
        conditions = group(kubectl, task_id).get("status", {}).get("conditions", [])
        return any(entry["reason"] == "Unschedulable" for entry in conditions)

    eventually(unschedulable)


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_gang_of_four_with_room_for_three_starts_none_and_says_so(
    sky: Command, kubectl: Command, backend: str
) -> None:
    task_id = submit(sky, FOUR, "--backend", backend)
    until_unschedulable(kubectl, task_id)
    assert hosts(kubectl, task_id) == [""] * 4
    for command in (("list",), ("status", task_id)):
        assert WAITS in sky(*command).stdout
    assert WAITS in " ".join(sky("doctor", task_id).stdout.split())
    causes = sky.json("doctor", task_id)["findings"]
    assert [(cause["rule"], cause["nodes"]) for cause in causes] == [("gang-waits", [0, 1, 2, 3])]
    (owner, *_) = group(kubectl, task_id)["metadata"]["ownerReferences"]
    assert owner["kind"] == "Job"


def test_submit_that_follows_says_why_gang_waits(sky: Command) -> None:
    process = sky.start("submit", sky.write("train.yaml", FOUR))
    assert process.stderr
    lines = iter(process.stderr.readline, "")
    assert next(line for line in lines if "pending" in line).startswith(f"train: pending: {WAITS}")


def test_gang_of_user_is_kept_and_explained(sky: Command, kubectl: Command) -> None:
    (version,) = {
        line.split()[1]
        for line in kubectl("api-resources").stdout.splitlines()
        if "PodGroup" in line
    }
    spec = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    item = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "mine"}, "spec": spec}
    assert kubectl("apply", "-f", "-", stdin=json.dumps(item)).returncode == 0
    pod = "config: {kubernetes: {pod_config: {spec: {schedulingGroup: {podGroupName: mine}}}}}\n"
    done = sky("submit", "-", "--detach", stdin=FOUR + pod)
    assert "no gang scheduler" not in done.stderr
    eventually(lambda: WAITS in sky("list").stdout)
    assert WAITS in " ".join(sky("doctor", submitted(done)).stdout.split())


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_gang_that_fits_starts_and_same_id_changes_nothing(
    sky: Command, kubectl: Command, backend: str
) -> None:
    flags = ("--num-nodes", "3", "--backend", backend, "--id", "bcdf2345")
    task_id = submit(sky, FOUR, *flags)
    eventually(lambda: hosts(kubectl, task_id) == ["n1", "n2", "n3"])
    version = group(kubectl, task_id)["metadata"]["resourceVersion"]
    done = sky("submit", "-", "--detach", *flags, stdin=FOUR)
    assert "unchanged" in done.stdout, done.stderr
    assert group(kubectl, task_id)["metadata"]["resourceVersion"] == version


def test_gang_off_starts_the_nodes_that_fit(sky: Command, kubectl: Command) -> None:
    task_id = submit(sky, FOUR, "--gang", "off")
    eventually(lambda: hosts(kubectl, task_id) == ["", "n1", "n2", "n3"])


def test_tasks_of_an_array_start_where_they_fit(sky: Command, kubectl: Command) -> None:
    task_id = submit(sky, FOUR, "--num-nodes", "1", "--array", "0-4")
    eventually(lambda: hosts(kubectl, task_id) == ["", "", "n1", "n2", "n3"])


def test_gang_starts_when_other_task_stops(sky: Command, kubectl: Command) -> None:
    first = submit(sky, FOUR, "--num-nodes", "2")
    eventually(lambda: "" not in hosts(kubectl, first))
    second = submit(sky, FOUR, "--num-nodes", "2")
    until_unschedulable(kubectl, second)
    (free,) = {"n1", "n2", "n3"} - set(hosts(kubectl, first))
    assert f"; 1 fits now: {free} has 4 CPUs free, " in sky("status", second).stdout
    assert sky("stop", first).returncode == 0
    eventually(lambda: hosts(kubectl, second) and "" not in hosts(kubectl, second))


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_topology_keeps_nodes_in_one_rack(sky: Command, kubectl: Command, backend: str) -> None:
    file = sky.write("rack.yaml", RACK)
    assert "the scheduler starts all nodes in one rack" in sky("validate", "--live", file).stderr
    task_id = submit(sky, RACK, "--num-nodes", "2", "--backend", backend)
    eventually(lambda: hosts(kubectl, task_id) == ["n1", "n2"])


def test_topology_without_room_in_one_rack_starts_none(sky: Command, kubectl: Command) -> None:
    task_id = submit(sky, RACK, "--num-nodes", "3")
    until_unschedulable(kubectl, task_id)
    assert hosts(kubectl, task_id) == [""] * 3
    text = "3 CPUs start together in one rack; 2 fit in rack r1 now: n1, n2 have 4 CPUs free each"
    assert text in sky("list").stdout


def test_gang_restarts_failed_pod_beside_running_ones(sky: Command, kubectl: Command) -> None:
    text = FOUR.replace("cpus: 3", "cpus: 3, job_recovery: {max_restarts_on_errors: 3}")
    task_id = submit(sky, text, "--num-nodes", "3")
    eventually(lambda: hosts(kubectl, task_id) == ["n1", "n2", "n3"])
    end(kubectl, task_id, 1, "Failed")
    eventually(lambda: len(set(hosts(kubectl, task_id))) == 3 < len(hosts(kubectl, task_id)))


def test_gang_with_completed_node_says_that_a_restart_waits(sky: Command, kubectl: Command) -> None:
    text = FOUR.replace("cpus: 3", "cpus: 3, job_recovery: {max_restarts_on_errors: 3}")
    task_id = submit(sky, text, "--num-nodes", "3")
    eventually(lambda: hosts(kubectl, task_id) == ["n1", "n2", "n3"])
    end(kubectl, task_id, 0, "Succeeded")
    end(kubectl, task_id, 1, "Failed")
    eventually(lambda: "" in hosts(kubectl, task_id))
    output = " ".join(sky("doctor", task_id).stdout.split())
    assert "all 3 nodes start together, and only 2 of their pods exist" in output


def end(kubectl: Command, task_id: str, rank: int, phase: str) -> None:
    """Let the pod of a node end as the kubelet does."""
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={task_id},node-idx={rank}")["items"]
    patch = ("patch", "pod", pod["metadata"]["name"], "--subresource=status", "-p")
    done = kubectl(*patch, json.dumps({"status": {"phase": phase}}))
    assert done.returncode == 0, done.stderr


def test_gang_without_right_to_create_pod_groups_is_warned_of(
    sky: Command, kubectl: Command
) -> None:
    role, binding = json.loads(sky("doctor", "--role", "-o", "json").stdout)["items"]
    role["rules"] = [rule for rule in role["rules"] if "podgroups" not in rule["resources"]]
    binding["subjects"][0]["name"] = "alice@example.com"
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})
    applied = kubectl("apply", "-f", "-", stdin=body)
    assert applied.returncode == 0, applied.stderr
    alice = ("--context", "alice")
    done = sky("submit", "-", "--detach", *alice, stdin=FOUR)
    assert done.returncode == 0, done.stderr
    assert "no gang scheduler: some of the 4 nodes may start" in done.stderr
    assert "ask for the right to create podgroups.scheduling.k8s.io" in done.stderr
    refused = sky("submit", "-", "--gang", "required", *alice, stdin=FOUR)
    assert refused.returncode == 2
    assert "--gang: config.kubectl_sky.gang: nothing starts all nodes" in refused.stderr


def test_doctor_knows_gangs_and_their_rights(sky: Command) -> None:
    assert sky.json("doctor")["gang_scheduling"].startswith("scheduling.k8s.io/v1")
    rules = json.loads(sky("doctor", "--role", "-o", "json").stdout)["items"][0]["rules"]
    (rule,) = (rule for rule in rules if "podgroups" in rule["resources"])
    assert rule["apiGroups"] == ["scheduling.k8s.io"]
    assert rule["verbs"] == ["create", "delete", "list", "patch"]
