"""Which objects and pods belong to a task: by labels, and pods by their controller."""

from typing import Any

import pytest

from kubectl_sky.observe import ownership
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import fold, tasks
from kubectl_sky.words import bounded
from kubectl_sky.workloads import job_status
from tests.builders import (
    ID,
    Json,
    make_controller,
    make_indexed_pod,
    make_job,
    make_pod,
    make_whole,
)
from tests.reading import read_job, read_jobs, read_metadata, read_pod, read_pods

RUNNING: Json = {"running": {}}


def make_other_pod(**metadata: Any) -> Json:
    pod = make_pod(0, "Running", RUNNING)
    pod["metadata"] |= {"name": "other", "creationTimestamp": "2026-01-01T00:30:00Z", **metadata}
    return pod


@pytest.mark.parametrize(
    "owners",
    [
        [],
        make_controller("another"),
        [{**make_controller(f"train-{ID}-node-0")[0], "controller": False}],
    ],
    ids=["none", "a replaced Job", "no controller"],
)
def test_pod_without_controller_of_task_does_not_count(owners: list[Json]) -> None:
    job = make_job()
    other = make_other_pod(ownerReferences=owners)
    (task,) = tasks([read_job(job)], [read_pod(make_pod(state=RUNNING)), read_pod(other)])
    assert task.nodes[0].pod == f"train-{ID}-node-0-x"
    assert tasks([read_job(job)], [read_pod(other)])[0].nodes[0].pod == ""


def test_pod_with_wrong_rank_label_belongs_to_its_job() -> None:
    jobs = [make_job(0, 2), make_job(1, 2)]
    pod = make_pod(1, "Running", RUNNING)
    pod["metadata"]["labels"]["node-idx"] = "0"
    nodes = tasks(read_jobs(jobs), [read_pod(pod)])[0].nodes
    assert [node.pod for node in nodes] == ["", pod["metadata"]["name"]]


def test_pod_of_jobset_is_matched_through_its_job() -> None:
    whole = make_whole(2, "jobset")
    whole["kind"] = "JobSet"
    whole["spec"] = {"replicatedJobs": [{"template": {"spec": {"completions": 2}}}]}
    pod = make_indexed_pod(1, state=RUNNING)
    pod["metadata"]["ownerReferences"] = make_controller(f"train-{ID}-node-0")
    between = {
        "metadata": {
            "uid": f"uid-train-{ID}-node-0",
            "ownerReferences": make_controller(f"train-{ID}"),
        }
    }
    label = "jobset.sigs.k8s.io/jobset-name"
    assert ownership.jobs_between([read_job(whole)], [read_pod(pod)]) == {label: [f"train-{ID}"]}

    owned = ownership.decide(read_jobs([whole]), read_pods([pod]), read_metadata([between]))
    assert fold(owned)[0].nodes[1].state is State.RUNNING
    assert ownership.decide(read_jobs([whole]), read_pods([pod]))[0].all_pods == []
    assert ownership.jobs_between([read_job(make_whole(2))], [read_pod(pod)]) == {}, (
        "no request for plain Jobs"
    )


@pytest.mark.parametrize(
    "labels",
    [{"node-idx": "9" * 63}, {"node-idx": "-1"}, {"node-idx": "٣"}, {"node-idx": "x"}],
)
def test_invalid_rank_labels_do_not_break_list(labels: Json) -> None:
    job = make_job()
    job["metadata"]["labels"] |= labels
    job["metadata"]["annotations"]["kubectl-sky/num-nodes"] = "9" * 5000
    (task,) = tasks([read_job(job)], [read_pod(make_pod())])
    assert task.num_nodes <= bounded.NODES + 1


@pytest.mark.parametrize(
    ("value", "number"),
    [("12", 12), ("0012", 12), ("-1", 0), ("", 0), (None, 0), ("9" * 9000, 100_001), (True, 0),
     (7, 7), (1e400, 0), ("²", 0), ([], 0), (-5, 0)],
)  # fmt: skip
def test_bounded_int_is_limited(value: object, number: int) -> None:
    assert bounded.integer(value) == number


def test_listed_completions_of_invalid_text_are_bounded() -> None:
    assert job_status.list_indexes("1,3-5") == {1: 0, 3: 1, 4: 2, 5: 3}
    assert len(job_status.list_indexes("x,-,5-1,9999999999999999999-")) <= 3
    assert len(job_status.list_indexes("0-2147483647,5")) == bounded.NODES + 1
