"""A JobSet for all nodes: manifest and node states."""

from typing import Any

import pytest

from kubectl_sky.observe.nodes import State
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.workloads.jobset import JobSet
from tests.builders import condition, make_indexed_pod, make_metadata, make_plan, terminated
from tests.reading import read_job
from tests.workloads.folding import fold

RUNNING: dict[str, Any] = {"running": {}}
FAILED = condition("Failed", "FailedJobs")


def make_jobset(restarts: int = 0, **status: Any) -> dict[str, Any]:
    metadata = make_metadata("train-bcdf2345", nodes=3)
    metadata["annotations"]["kubectl-sky/backend"] = "jobset"
    job = {"template": {"spec": {"completions": 3, "template": {}}}}
    spec = {"failurePolicy": {"maxRestarts": restarts}, "replicatedJobs": [job]}
    return {"kind": "JobSet", "metadata": metadata, "spec": spec, "status": status}


def plan_of(name: str = "train", nodes: int = 3, recovery: Recovery | None = None) -> Plan:
    resources = Resources(recovery=recovery)
    task = Task(name=name, num_nodes=nodes, run="true", resources=resources, backend="jobset")
    return make_plan(task)


def test_jobset_manifest_has_single_replicated_job() -> None:
    (jobset,) = manifests.render(plan_of()).workload
    spec = jobset.object["spec"]
    assert jobset.name == "JobSet/train-bcdf2345"
    assert spec["failurePolicy"] == {"maxRestarts": 0}
    (job,) = spec["replicatedJobs"]
    inner = job["template"]["spec"]
    assert (inner["completions"], inner["parallelism"], inner["backoffLimit"]) == (3, 3, 0)
    (pod,) = JobSet().templates(jobset.object)
    assert pod["metadata"]["labels"]["task-id"] == "bcdf2345"
    env = {variable["name"]: variable for variable in pod["spec"]["containers"][0]["env"]}
    assert env["KUBECTL_SKY_HOSTS"]["value"] == "train-bcdf2345-node-0-"
    assert "labels" not in job["template"].get("metadata", {}), "the inner Job is not the task"


def test_jobset_recovery_becomes_failure_policy() -> None:
    (jobset,) = manifests.render(plan_of(recovery=Recovery(2, (9,)))).workload
    policy = jobset.object["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 2
    assert policy["rules"][0]["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    inner = jobset.object["spec"]["replicatedJobs"][0]["template"]["spec"]
    rules = inner["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["FailJob", "FailJob"]
    assert rules[1]["onExitCodes"]["values"] == [9]
    assert JobSet().notes(plan_of(recovery=Recovery(2))) == ()


STATES = {
    "no pod yet": (make_jobset(), [], "pending pending pending"),
    "one is done": (
        make_jobset(),
        [make_indexed_pod(0, "Succeeded", terminated(0)), make_indexed_pod(1, state=RUNNING)],
        "completed running pending",
    ),
    "all will start again": (
        make_jobset(restarts=1),
        [make_indexed_pod(1, "Failed", terminated(5))],
        "pending running pending",
    ),
    "none will start again": (
        make_jobset(restarts=1) | {"status": {"restarts": 1}},
        [make_indexed_pod(1, "Failed", terminated(5))],
        "pending failed pending",
    ),
    "all done": (
        make_jobset(conditions=[condition("Completed")]),
        [],
        "completed completed completed",
    ),
}


@pytest.mark.parametrize(("jobset", "pods", "states"), STATES.values(), ids=STATES)
def test_jobset_node_states_follow_pods(
    jobset: dict[str, Any], pods: list[dict[str, Any]], states: str
) -> None:
    assert " ".join(node.state for node in fold(jobset, *pods).nodes) == states


def test_jobset_failed_node_stops_remaining_nodes() -> None:
    stopped = make_indexed_pod(0, "Failed", terminated(143))
    stopped["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:30Z"
    failed = make_indexed_pod(1, "Failed", terminated(5))
    before = fold(make_jobset(), stopped, failed)
    assert [node.reason for node in before.nodes] == ["Stopped", "Error", ""]
    after = fold(make_jobset(conditions=[FAILED]), stopped, failed)
    assert (after.state, after.over) == (State.FAILED, True)
    assert [node.reason for node in after.nodes] == ["Stopped", "Error", "Stopped"]
    assert after.note == "node-1: exit code 5"


def test_jobset_restarts_are_counted_once() -> None:
    task = fold(make_jobset(restarts=5) | {"status": {"restarts": 2}})
    assert task.restarts == 2


def test_jobset_suspended_has_message() -> None:
    jobset = make_jobset()
    jobset["spec"]["suspend"] = True
    assert fold(jobset).nodes[0].message == "the JobSet is suspended"


@pytest.mark.parametrize(("suspended", "started"), [("False", "00:09:00"), ("True", "")])
def test_jobset_starts_when_it_is_resumed(suspended: str, started: str) -> None:
    item = make_jobset(conditions=[condition("Suspended", status=suspended)])
    assert JobSet().started_at(read_job(item)) == (f"2026-01-01T{started}Z" if started else "")


def test_jobset_too_long_name_is_refused() -> None:
    assert JobSet().fits(plan_of("x" * 39, nodes=2)) == ""
    reason = JobSet().fits(plan_of("x" * 40, nodes=1000))
    assert reason == "the pod names would be 3 characters too long; shorten its name"


def test_jobset_max_duration_fails_it_without_restart() -> None:
    plan = make_plan(Task(run="true", num_nodes=3, backend="jobset", max_duration="2h"))
    (jobset,) = manifests.render(plan).workload
    spec = jobset.object["spec"]
    assert spec["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] == 7200
    (rule,) = spec["failurePolicy"]["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["DeadlineExceeded"])
    late = make_jobset(conditions=[condition("Failed", "FailJobSetFailurePolicyAction")])
    late["metadata"]["annotations"]["kubectl-sky/max-duration"] = "2h"
    late["spec"]["failurePolicy"]["rules"] = [rule]
    assert fold(late).note == "node-0: DeadlineExceeded: it ran longer than max_duration 2h"
    running = make_jobset()
    running["spec"]["failurePolicy"]["rules"] = [rule]
    done = make_indexed_pod(0, "Succeeded", terminated(0))
    assert fold(running, done).nodes[0].state is State.COMPLETED
