"""Arrays as a single Indexed Job: manifest, and states per index."""

from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.waiting import notes, stage
from kubectl_sky.render import manifests
from kubectl_sky.spec.buckets import Bucket
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.pipeline import array_of, parse_array
from kubectl_sky.spec.sweep import Sweep
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


def array_task(task: Task, numbers: str) -> Task:
    return as_array([replace(task, array=parse_array(numbers))])[0]


def test_array_manifest_is_indexed_job() -> None:
    buckets = (Bucket("/a", "s3", "box"),)
    task = Task("train", run="true", resources=Resources(recovery=Recovery(2)), buckets=buckets)
    (job,) = manifests.render(make_plan(array_task(task, "0,3,7-9%2"))).workload
    spec = job.object["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (5, 2, 2)
    assert "backoffLimit" not in spec
    actions = [rule["action"] for rule in spec["podFailurePolicy"]["rules"]]
    assert actions == ["Ignore", "FailIndex"]
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
        (Task(num_nodes=3), "an array and num_nodes 3: each task of an array runs on one node"),
        (Task(backend="jobset"), "an array and backend jobset: arrays run as one Indexed Job"),
    ],
)
def test_array_invalid_task_is_refused(task: Task, message: str) -> None:
    with pytest.raises(UserError) as caught:
        as_array([replace(task, array=parse_array("0-9"))])
    assert message in str(caught.value)


def test_array_of_several_tasks_is_refused() -> None:
    task = Task(num_nodes=3)
    assert as_array([task, task]) == [task, task]
    with pytest.raises(UserError, match="an array runs one task many times"):
        as_array([task, replace(task, array=parse_array("0-9"))])


def test_array_max_duration_is_that_of_each_pod() -> None:
    task = Task(name="train", run="true", max_duration="90m")
    (job,) = manifests.render(make_plan(array_task(task, "0-9"))).workload
    assert "activeDeadlineSeconds" not in job.object["spec"]
    assert job.object["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 5400


SWEEP = {"LR": [0.1, "1e-2"], "SEED": "1..3"}


def test_sweep_manifest_has_the_values_and_how_many_there_are() -> None:
    task = Task(name="train", run="true", array=array_of({"sweep": SWEEP, "sweep_limit": 2}))
    (job,) = manifests.render(make_plan(as_array([task])[0])).workload
    spec = job.object["spec"]
    assert (spec["completions"], spec["parallelism"]) == (6, 2)
    annotations = spec["template"]["metadata"]["annotations"]
    assert annotations["kubectl-sky/sweep"] == '{"LR":["0.1","1e-2"],"SEED":["1","2","3"]}'
    env = spec["template"]["spec"]["containers"][0]["env"]
    values = {variable["name"]: variable.get("value") for variable in env}
    assert values["KUBECTL_SKY_SWEEP"] == "SEED=3 LR=2"
    assert values["KUBECTL_SKY_SWEEP_LR_1"] == "1e-2"


def make_sweep(**status: Any) -> dict[str, Any]:
    job = make_array("0-5", 6, **status)
    sweep = Sweep({"LR": ("0.1", "0.01"), "SEED": ("1", "2", "3")})
    job["metadata"]["annotations"]["kubectl-sky/sweep"] = sweep.text
    return job


def test_sweep_nodes_are_named_by_their_values() -> None:
    task = fold(make_sweep(completedIndexes="0", failedIndexes="4"))
    assert [node.name for node in task.nodes[:4]] == [
        "LR=0.1 SEED=1",
        "LR=0.1 SEED=2",
        "LR=0.1 SEED=3",
        "LR=0.01 SEED=1",
    ]
    assert task.note == "1 of 6 failed, first LR=0.01 SEED=2: Failed"
    assert task.nodes[4].document.sweep == {"LR": "0.01", "SEED": "2"}
    assert task.variables == {"LR": "0.1,0.01", "SEED": "1,2,3"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"LR": []}', '{"LR": "0.1"}', '{"LR": [1]}'])
def test_sweep_that_is_damaged_is_an_array(text: str) -> None:
    job = make_sweep()
    job["metadata"]["annotations"]["kubectl-sky/sweep"] = text
    assert fold(job).nodes[0].name == "index-0"
