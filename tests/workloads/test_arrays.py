"""Arrays as a single Indexed Job: manifest, and states per index."""

from typing import Any

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.waiting import notes, stage
from kubectl_sky.render import manifests
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.submitting.check import as_array
from tests.builders import condition, make_indexed_pod, make_plan, make_whole, terminated
from tests.workloads.folding import fold

RUNNING: dict[str, Any] = {"running": {}}


def make_array(numbers: str, count: int, **status: Any) -> dict[str, Any]:
    job = make_whole(count, backend="array", **status)
    job["metadata"]["annotations"]["kubectl-sky/array"] = numbers
    job["metadata"]["annotations"]["kubectl-sky/num-nodes"] = "1"
    return job


def make_array_pod(numbers: str, index: int, phase: str, state: Any = None) -> dict[str, Any]:
    pod = make_indexed_pod(index, phase, state)
    pod["metadata"]["annotations"]["kubectl-sky/array"] = numbers
    return pod


def test_array_manifest_is_indexed_job() -> None:
    task = Task(name="train", run="true", resources=Resources(recovery=Recovery(2)))
    (job,) = manifests.render(make_plan(as_array([task], "0,3,7-9%2")[0])).workload
    spec = job.object["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (5, 2, 2)
    assert "backoffLimit" not in spec
    assert spec["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    numbers = {"kubectl-sky/array": "0,3,7-9"}
    assert numbers.items() <= job.object["metadata"]["annotations"].items()
    assert spec["template"]["metadata"]["annotations"] == numbers
    env = spec["template"]["spec"]["containers"][0]["env"]
    told = {variable["name"]: variable.get("value") for variable in env}
    assert told["KUBECTL_SKY_ARRAY"] == "0,3,7-9"
    assert told["SKYPILOT_NUM_JOBS"] == "5"


def test_array_node_states_are_independent() -> None:
    job = make_array("0,3,7", 3, completedIndexes="0", failedIndexes="1")
    task = fold(
        job,
        make_array_pod("0,3,7", 1, "Failed", terminated(4)),
        make_array_pod("0,3,7", 2, "Running", RUNNING),
    )

    assert [(node.index, node.name) for node in task.nodes] == [
        (0, "index-0"),
        (3, "index-3"),
        (7, "index-7"),
    ]
    assert " ".join(node.state for node in task.nodes) == "completed failed running"
    assert (task.state, task.num_nodes) == (State.RUNNING, 3)
    assert task.note == "1 of 3 failed, first index-3: exit code 4"
    assert notes(task) == ["index-3 failed: exit code 4"]


def test_array_fails_when_all_indexes_finished() -> None:
    failed = condition("Failed", "FailedIndexes")
    job = make_array("0-2", 3, completedIndexes="0,2", failedIndexes="1", conditions=[failed])
    assert fold(job).state is State.FAILED
    assert fold(make_array("0-2", 3, completedIndexes="0-2")).state is State.COMPLETED


def test_array_indexes_not_started_are_not_noted() -> None:
    task = fold(make_array("0-99", 100))
    assert notes(task) == []
    assert stage(task) is None


def test_array_same_reason_is_noted_once() -> None:
    pods = [make_array_pod("0-4", n, "Pending") for n in range(5)]
    for pod in pods:
        no = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
        pod["status"]["conditions"] = [no]
    current = stage(fold(make_array("0-4", 5), *pods))
    assert current and current.text == "train: pending: Unschedulable: no"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(num_nodes=3), "--array 0-9 and num_nodes 3: each task of an array runs on one node"),
        (Task(backend="jobset"), "--array 0-9 and backend jobset: arrays run as one Indexed Job"),
    ],
)
def test_array_invalid_task_is_refused(task: Task, message: str) -> None:
    with pytest.raises(UserError) as caught:
        as_array([task], "0-9")
    assert message in str(caught.value)


def test_array_of_several_tasks_is_refused() -> None:
    task = Task(num_nodes=3)
    assert as_array([task, task], None) == [task, task]
    with pytest.raises(UserError, match="an array runs one task many times"):
        as_array([task, task], "0-9")


def test_array_max_duration_is_that_of_each_pod() -> None:
    task = Task(name="train", run="true", max_duration="90m")
    (job,) = manifests.render(make_plan(as_array([task], "0-9")[0])).workload
    assert "activeDeadlineSeconds" not in job.object["spec"]
    assert job.object["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 5400
