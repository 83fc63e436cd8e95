"""Objects of a task when foreign objects have the same labels."""

import resource
from typing import Any

import pytest

from kubectl_sky.observe import ownership
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import folded, tasks
from kubectl_sky.words import bounded
from kubectl_sky.workloads import job_status
from tests.builders import (
    CREATED,
    ID,
    Json,
    make_controller,
    make_indexed_pod,
    make_job,
    make_pod,
    make_whole,
)

LATER = "2026-01-01T00:30:00Z"
RUNNING: Json = {"running": {}}


def make_foreign_pod(**metadata: Any) -> Json:
    pod = make_pod(0, "Running", RUNNING)
    pod["metadata"] |= {"name": "evil", "creationTimestamp": LATER, **metadata}
    return pod


def make_foreign_job(name: str = "evil", node: int = 0, at: str = LATER, nodes: int = 1) -> Json:
    job = make_job(node, nodes)
    job["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": at}
    return job


def ignored(items: list[Json], pods: list[Json]) -> list[str]:
    return [text.split()[0] for text in ownership.decide(items, pods).ignored]


@pytest.mark.parametrize(
    "owners",
    [
        [],
        make_controller("another"),
        [{**make_controller(f"train-{ID}-node-0")[0], "controller": False}],
    ],
    ids=["none", "another Job", "no controller"],
)
def test_pod_without_controller_of_task_is_ignored(owners: list[Json]) -> None:
    job, evil = make_job(), make_foreign_pod(ownerReferences=owners)
    (task,) = tasks([job], [make_pod(state=RUNNING), evil])
    assert task.nodes[0].pod == f"train-{ID}-node-0-x"
    assert tasks([job], [evil])[0].nodes[0].pod == ""
    assert ignored([job], [evil]) == ["Pod/evil"]


def test_pod_being_deleted_is_not_warned() -> None:
    owners = make_controller("the-job-before")
    assert not ignored([make_job()], [make_foreign_pod(ownerReferences=owners, **DELETED)])


DELETED = {"deletionTimestamp": LATER}


def test_pod_of_node_being_created_is_not_warned() -> None:
    pod = make_pod(1, "Pending")
    assert not ignored([make_job(0, 2)], [pod])
    assert ignored([make_job(0, 2)], [make_foreign_pod(ownerReferences=[])]) == ["Pod/evil"]


def test_pod_forged_beside_active_pod_is_ignored() -> None:
    """A forged pod may name our Job as controller; a Job has no second active pod."""
    forged = make_foreign_pod()
    task = tasks([make_job()], [make_pod(state=RUNNING), forged])[0]
    assert (task.nodes[0].pod, task.nodes[0].restarts) == (f"train-{ID}-node-0-x", 0)


def test_pod_with_wrong_rank_label_belongs_to_its_job() -> None:
    jobs = [make_job(0, 2), make_job(1, 2)]
    liar = make_pod(1, "Running", RUNNING)
    liar["metadata"]["labels"]["node-idx"] = "0"
    nodes = tasks(jobs, [liar])[0].nodes
    assert [node.pod for node in nodes] == ["", liar["metadata"]["name"]]


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
    assert ownership.between([whole], [pod]) == {label: [f"train-{ID}"]}
    owned = ownership.decide([whole], [pod], [between])
    assert folded(owned).tasks[0].nodes[1].state is State.RUNNING
    assert ownership.decide([whole], [pod]).tasks[0].all_pods == []
    assert ownership.between([make_whole(2)], [pod]) == {}, "no request for plain Jobs"


@pytest.mark.parametrize(
    ("name", "node", "nodes"),
    [("evil", 0, 1), (f"evil-{ID}", 0, 1), (f"train-{ID}-node-2", 2, 2), (f"train-{ID}", 0, 1)],
)
def test_job_not_created_with_task_is_ignored(name: str, node: int, nodes: int) -> None:
    jobs, evil = [make_job(0, 2), make_job(1, 2)], make_foreign_job(name, node, nodes=nodes)
    for listed in ([*jobs, evil], [evil, *jobs]):
        (task,) = tasks(listed, [])
        assert [node.job for node in task.nodes] == [job["metadata"]["name"] for job in jobs]
        assert list(task.uids.values()) == [job["metadata"]["uid"] for job in jobs]
        assert ignored(listed, []) == [f"Job/{name}"]


def test_job_of_other_user_with_same_id_is_ignored() -> None:
    mine = make_job(0, 1)
    mine["metadata"]["name"] = f"train-{ID}"
    other = make_foreign_job(f"train2-{ID}")
    other["metadata"]["annotations"] |= {"kubectl-sky/name": "train2", "kubectl-sky/user": "eve"}
    (task,) = tasks([other, mine], [])
    assert (task.user, task.nodes[0].job) == ("alice", f"train-{ID}")


def test_jobs_of_same_second_are_rivals_unless_known() -> None:
    mine = make_job(0, 1)
    mine["metadata"]["name"] = f"train-{ID}"
    other = make_foreign_job(f"aaa-{ID}", at=CREATED)
    other["metadata"]["annotations"]["kubectl-sky/name"] = "aaa"
    (task,) = tasks([mine, other], [])
    assert task.rivals == (f"Job/aaa-{ID} (owner: alice)", f"Job/train-{ID} (owner: alice)")
    known = [mine["metadata"]["uid"]]
    (decided,) = ownership.decide([mine, other], [], known=known).tasks
    assert (decided.items, decided.rivals) == ((mine,), ())


def test_object_of_other_kind_is_ignored() -> None:
    whole = make_whole(3)
    fake = make_whole(3, "jobset")
    fake["metadata"] |= {"name": f"train-{ID}-x", "uid": "uid-x"}
    (task,) = tasks([fake, whole], [])
    assert task.backend == "indexed"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"completions": 2_000_000_000}},
        {"spec": {"completions": 10**40}},
        {"metadata": {"annotations": {"kubectl-sky/array": "0-2000000000"}}},
        {"metadata": {"annotations": {"kubectl-sky/array": ",".join(["0-100000"] * 20_000)}}},
    ],
    ids=["completions", "large completions", "array", "long array"],
)
def test_object_with_too_many_nodes_is_ignored(change: Json) -> None:
    item = make_whole(3, "array" if "metadata" in change else "indexed")
    item["spec"] |= change.get("spec", {})
    item["metadata"]["annotations"] |= change.get("metadata", {}).get("annotations", {})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    owned = ownership.decide([item], [])
    assert owned.tasks == ()
    assert "more than 100,000 nodes" in owned.ignored[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_small_task_is_listed_beside_large_tasks() -> None:
    items = [make_job(0, 1)]
    for number in range(8):
        item = make_whole(bounded.NODES)
        item["metadata"]["labels"]["task-id"] = f"large{number:03}"
        item["metadata"]["uid"] = f"uid-{number}"
        items.append(item)
    owned = ownership.decide(items, [])
    assert owned.tasks[0].items[0] is items[0]
    assert len(owned.tasks) == 3
    assert all("too many nodes" in text for text in owned.ignored)


@pytest.mark.parametrize(
    "labels",
    [{"node-idx": "9" * 63}, {"node-idx": "-1"}, {"node-idx": "٣"}, {"node-idx": "x"}],
)
def test_invalid_rank_labels_do_not_break_list(labels: Json) -> None:
    job = make_job()
    job["metadata"]["labels"] |= labels
    job["metadata"]["annotations"]["kubectl-sky/num-nodes"] = "9" * 5000
    (task,) = tasks([job], [make_pod()])
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
