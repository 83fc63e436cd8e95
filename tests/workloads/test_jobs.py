"""A Job per node: remaining nodes are stopped when a node fails."""

from typing import Any

import pytest

from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.workloads import registry
from tests.builders import make_job, make_plan, make_pod, make_task, terminated
from tests.reading import read_job, read_pod, read_pods

RUNNING: dict[str, Any] = {"running": {}}
FAILED = (make_job(0, 3, "Failed"), make_pod(0, "Failed", terminated(7)))


def stopped(end: str = "", reason: str = "DeadlineExceeded") -> dict[str, Any]:
    """Return the Job of node 1, stopped because node 0 failed."""
    job = make_job(1, 3, end)
    job["metadata"]["annotations"] |= registry.find("jobs").stopping("node-0")["metadata"][
        "annotations"
    ]
    if end:
        job["status"]["conditions"][-1]["reason"] = reason
    return job


def fold(job: dict[str, Any], *pods: dict[str, Any]) -> TaskStatus:
    (task,) = tasks(
        [read_job(FAILED[0]), read_job(job), read_job(make_job(2, 3, "Complete"))],
        [read_pod(FAILED[1]), *read_pods(pods)],
    )
    return task


@pytest.mark.parametrize("name", ["jobs", "volcano"])
def test_stopping_job_sets_active_deadline(name: str) -> None:
    body = registry.find(name).stopping("node-2")
    assert body["spec"] == {"activeDeadlineSeconds": 1}
    assert body["metadata"]["annotations"] == {"kubectl-sky/stopped-for": "node-2"}


@pytest.mark.parametrize("name", ["indexed", "jobset", "mpijob", "appwrapper", "array"])
def test_stopping_other_backends_changes_nothing(name: str) -> None:
    assert registry.find(name).stopping("node-2") == {}


def test_jobs_stopped_node_is_distinguished_from_failed() -> None:
    task = fold(stopped("Failed"))
    assert (task.state, task.over) == (State.FAILED, True)
    assert [node.reason for node in task.nodes] == ["Error", "Stopped", ""]
    assert task.nodes[1].message == "node-0 failed"
    assert task.note == "node-0: exit code 7"


def test_jobs_node_being_stopped_follows_pod() -> None:
    pod = make_pod(1, "Running", RUNNING)
    assert fold(stopped(), pod).nodes[1].state is State.RUNNING
    assert fold(stopped()).nodes[1].reason == "Stopped", "its pod has gone"
    pod = make_pod(1, "Failed", terminated(143))
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:30Z"
    assert fold(stopped(), pod).nodes[1].reason == "Stopped"
    done = make_pod(1, "Succeeded", terminated(0))
    assert fold(stopped(), done).nodes[1].state is State.COMPLETED, "it was quicker"


def test_jobs_node_with_other_failure_keeps_reason() -> None:
    pod = make_pod(1, "Failed", terminated(3))
    node = fold(stopped("Failed", "BackoffLimitExceeded"), pod).nodes[1]
    assert (node.reason, node.exit_code) == ("Error", 3)
    held = stopped()
    held["spec"]["suspend"] = True
    assert fold(held).nodes[1].reason == "Stopped", "the Job may still be suspended by a queue"


@pytest.mark.parametrize(
    ("nodes", "backend", "count"), [(99, "jobs", 0), (100, "jobs", 1), (100, "volcano", 0)]
)
def test_jobs_of_many_nodes_note_that_one_job_is_faster(
    nodes: int, backend: str, count: int
) -> None:
    notes = registry.find(backend).notes(make_plan(make_task(nodes)))
    assert [note.startswith("100 nodes are as many Jobs") for note in notes] == [True] * count
