"""A single Indexed Job for all nodes: manifest and node states."""

from typing import Any

import pytest

from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import tasks
from kubectl_sky.observe.waiting import notes
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads import job_status
from tests.builders import condition, make_indexed_pod, make_plan, make_whole, terminated
from tests.reading import read_job, read_pod
from tests.workloads.folding import fold

RUNNING: dict[str, Any] = {"running": {}}
FAILED = condition("Failed", "BackoffLimitExceeded")
FAILING = condition("FailureTarget", "BackoffLimitExceeded")


def plan_of(nodes: int = 3) -> Plan:
    return make_plan(Task(name="train", num_nodes=nodes, run="true", backend="indexed"))


def stopped(index: int) -> dict[str, Any]:
    """Return a pod that was stopped."""
    pod = make_indexed_pod(index, "Failed", terminated(143, at="2026-01-01T00:05:00Z"))
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:30Z"
    return pod


def test_indexed_manifest_is_single_job() -> None:
    (job,) = manifests.render(plan_of()).workload
    spec = job.object["spec"]
    assert job.name == "Job/train-bcdf2345"
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimit"] == 0
    assert job.object["metadata"]["annotations"]["kubectl-sky/backend"] == "indexed"
    pod = spec["template"]["spec"]
    assert "hostname" not in pod and pod["subdomain"] == "train-bcdf2345"
    env = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
    assert env["KUBECTL_SKY_HOSTS"]["value"] == "train-bcdf2345-"
    path = env["NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert env["NUM_NODES"]["value"] == "3"


def test_indexed_single_node_has_no_host_names() -> None:
    (job,) = manifests.render(plan_of(1)).workload
    env = job.object["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "KUBECTL_SKY_HOSTS" not in {variable["name"] for variable in env}


STATES = {
    "no pod yet": ({}, [], "pending pending pending"),
    "one runs": ({}, [make_indexed_pod(1, state=RUNNING)], "pending running pending"),
    "two are done": (
        {"completedIndexes": "0,2"},
        [make_indexed_pod(1, state=RUNNING)],
        "completed running completed",
    ),
    "one failed, one is being stopped": (
        {"conditions": [FAILING], "completedIndexes": "0"},
        [
            make_indexed_pod(1, state=RUNNING),
            make_indexed_pod(2, "Failed", terminated(7)),
        ],
        "completed running failed",
    ),
    "a pod has gone already": (
        {"conditions": [FAILING]},
        [make_indexed_pod(2, "Failed", terminated(7)), stopped(1)],
        "failed failed failed",
    ),
    "all done": (
        {"conditions": [condition("Complete", "CompletionsReached")]},
        [],
        "completed completed completed",
    ),
}


@pytest.mark.parametrize(("status", "pods", "states"), STATES.values(), ids=STATES)
def test_indexed_node_states_follow_pods(
    status: dict[str, Any], pods: list[dict[str, Any]], states: str
) -> None:
    task = fold(make_whole(3, **status), *pods)
    assert " ".join(node.state for node in task.nodes) == states


def test_indexed_failed_node_is_named_and_remaining_are_stopped() -> None:
    job = make_whole(3, conditions=[FAILING, FAILED])
    task = fold(job, stopped(0), make_indexed_pod(2, "Failed", terminated(7)))
    assert task.state is State.FAILED and task.over
    assert task.note == "node-2: exit code 7"
    assert [node.reason for node in task.nodes] == ["Stopped", "Stopped", "Error"]
    assert task.nodes[1].message.startswith("BackoffLimitExceeded")


def test_indexed_failed_node_is_noted_while_remaining_stop() -> None:
    job = make_whole(3, conditions=[FAILING])
    pods = [make_indexed_pod(1, state=RUNNING), make_indexed_pod(2, "Failed", terminated(7))]
    assert fold(job, *pods).stopping
    assert not fold(make_whole(3), *pods).stopping
    assert notes(fold(job, *pods)) == [
        "node-2 failed: exit code 7; the other nodes are being stopped"
    ]


def test_indexed_suspended_job_is_noted() -> None:
    job = make_whole(2)
    job["spec"]["suspend"] = True
    assert fold(job).note == "node-0: Suspended"


def test_indexed_job_of_controller_is_no_task() -> None:
    job = make_whole(2)
    job["metadata"]["ownerReferences"] = [{"kind": "AppWrapper", "controller": True}]
    assert tasks([read_job(job)], []) == []


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_indexed_pod_has_its_index_in_a_label_or_an_annotation(place: str) -> None:
    pod = make_indexed_pod(2)
    del pod["metadata"][place][job_status.INDEX]
    assert job_status.index_of(read_pod(pod)) == 2


def test_indexed_completed_indexes_are_parsed() -> None:
    assert job_status.list_indexes("0,2-4,10") == {0: 0, 2: 1, 3: 2, 4: 3, 10: 4}
    job = make_whole(12, completedIndexes="1-2")
    inside = [index for index in range(12) if job_status.has_completed(read_job(job), index)]
    assert inside == [1, 2]
    assert not job_status.has_completed(read_job(job), 0)
