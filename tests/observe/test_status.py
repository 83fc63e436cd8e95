"""Status of tasks, folded from Jobs and pods."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cluster.encoding import decode
from kubectl_sky.observe import pipelines
from kubectl_sky.observe.nodes import State, read_detailed_status
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.observe.verdict import judge
from kubectl_sky.observe.waiting import stage
from kubectl_sky.tasks.live import pack
from kubectl_sky.words import names
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.workloads import registry
from tests.builders import (
    ID,
    condition,
    make_indexed_pod,
    make_job,
    make_metadata,
    make_pod,
    make_whole,
    terminated,
)
from tests.reading import read_job, read_jobs, read_objects, read_pod, read_pods

RUN = {kind.kind for kind in registry.KINDS}
RUNNING = {"running": {"startedAt": "2026-01-01T00:01:00Z"}}


Json = dict[str, Any]


def fold(jobs: list[dict[str, Any]], pods: list[dict[str, Any]]) -> TaskStatus:
    (task,) = tasks(read_jobs(jobs), read_pods(pods))
    return task


@pytest.mark.parametrize(
    ("jobs", "pods", "state"),
    [
        pytest.param([make_job()], [], State.PENDING, id="no pod yet"),
        pytest.param([make_job()], [make_pod(phase="Pending")], State.PENDING, id="not scheduled"),
        pytest.param(
            [make_job()],
            [make_pod(phase="Pending", state={"waiting": {"reason": "ContainerCreating"}})],
            State.PENDING,
            id="being created",
        ),
        pytest.param([make_job()], [make_pod(state=RUNNING)], State.RUNNING, id="running"),
        pytest.param(
            [make_job(0, 2), make_job(1, 2)],
            [make_pod(0, state=RUNNING), make_pod(1, "Pending")],
            State.RUNNING,
            id="one of two runs",
        ),
        pytest.param(
            [make_job(0, 2, "Complete"), make_job(1, 2)],
            [make_pod(1, "Pending")],
            State.RUNNING,
            id="one has completed, the other waits",
        ),
        pytest.param(
            [make_job(0, 2, "Complete"), make_job(1, 2, "Complete")],
            [],
            State.COMPLETED,
            id="all done",
        ),
        pytest.param(
            [make_job(0, 2, "Failed"), make_job(1, 2)],
            [make_pod(1, state=RUNNING)],
            State.FAILED,
            id="one failed, one runs",
        ),
        pytest.param(
            [make_job(0, 2, "Complete")], [], State.RUNNING, id="a node was never submitted"
        ),
        pytest.param(
            [make_job()],
            [make_pod(phase="Failed", state=terminated(1))],
            State.RUNNING,
            id="the Job has not judged yet",
        ),
    ],
)
def test_task_state_follows_jobs_and_pods(
    jobs: list[dict[str, Any]], pods: list[dict[str, Any]], state: State
) -> None:
    assert fold(jobs, pods).state is state


def test_task_conditions_are_matched_by_type() -> None:
    job = make_job(end="Complete")
    job["status"]["conditions"].append({"type": "SuccessCriteriaMet", "status": "True"})
    job["status"]["conditions"].insert(0, {"type": "Failed", "status": "False"})
    assert fold([job], []).state is State.COMPLETED


def test_task_repr_is_one_short_line() -> None:
    task = fold([make_job(end="Failed")], [make_pod(0, "Failed", terminated(3))])
    text = "<TaskStatus bcdf2345 (train): failed, 0/1 nodes, node-0: exit code 3>"
    assert repr(task) == text


def test_task_first_failure_is_earliest() -> None:
    jobs = [make_job(n, 3, "Failed") for n in range(3)]
    pods = [
        make_pod(0, "Failed", terminated(1, at="2026-01-01T00:05:02Z")),
        make_pod(1, "Failed", terminated(137, "OOMKilled", at="2026-01-01T00:05:01Z")),
        make_pod(2, "Failed", terminated(1, at="2026-01-01T00:05:03Z")),
    ]
    task = fold(jobs, pods)
    assert task.first_failure and task.first_failure.index == 1
    assert task.note == "node-1: OOMKilled (exit code 137)"


def test_task_first_failure_of_equal_ends_is_the_one_reported_when_others_were_stopped() -> None:
    jobs = [make_job(n, 2, "Failed") for n in range(2)]
    jobs[0]["metadata"]["annotations"][names.STOPPED_FOR] = "node-1"
    early, late = (f"2026-01-01T00:05:0{second}Z" for second in (1, 2))
    pods = [
        make_pod(0, "Failed", terminated(127, at=early)),
        make_pod(1, "Failed", terminated(127, at=late)),
    ]
    assert fold(jobs, pods).note == "node-1: exit code 127 (command not found)"
    pods[0] = make_pod(0, "Failed", terminated(3, at=early))
    assert fold(jobs, pods).note == "node-0: exit code 3", "the earlier one may be the cause"


@pytest.mark.parametrize(("ready", "state"), [(0, State.PENDING), (1, State.RUNNING)])
def test_node_in_another_cluster_runs_when_its_pod_is_ready(ready: int, state: State) -> None:
    job = make_job()
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    job["status"] = {"active": 1, "ready": ready}
    node = fold([job], []).nodes[0]
    assert (node.state, node.reason) == (state, "")


def test_node_evicted_has_reason_and_message() -> None:
    pod = make_pod(0, "Failed", reason="Evicted", message="The node was low on resource: memory.")
    node = fold([make_job(end="Failed")], [pod]).nodes[0]
    assert (node.reason, node.message) == ("Evicted", "The node was low on resource: memory.")


@pytest.mark.parametrize(
    ("ready", "containers", "reason"),
    [
        ({"status": "False"}, "True", "NodeLost"),  # as the node controller writes it
        ({"status": "False", "reason": "ContainersNotReady"}, "False", ""),
        ({"status": "False", "reason": "ReadinessGatesNotReady"}, "True", ""),
        ({"status": "True"}, "True", ""),
    ],
)
def test_node_on_silent_cluster_node_is_unknown(ready: Json, containers: str, reason: str) -> None:
    conditions = [{"type": "ContainersReady", "status": containers}, {"type": "Ready", **ready}]
    pod = make_pod(0, state={"running": {}}, conditions=conditions)
    task = fold([make_job()], [pod])
    (node,) = task.nodes
    assert (node.state, node.reason) == (State.RUNNING, reason)
    assert read_detailed_status(node) == ("unknown" if reason else "running")
    assert task.detailed_status == read_detailed_status(node)
    note = "node-0: NodeLost: cluster node worker-1 does not respond"
    assert pipelines.reason(task) == (note if reason else "")


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        ("2026-01-01T00:05:10Z", "its cluster node was tainted"),
        ("2026-01-01T00:20:00Z", "its cluster node was lost"),
    ],
    ids=["in-time", "late"],
)
def test_pod_that_a_taint_deleted_was_on_a_lost_cluster_node_if_it_ended_late(
    ended: str, cause: str
) -> None:
    """The node controller taints a lost cluster node, too, whose kubelet may come back."""
    taint = condition("DisruptionTarget", "DeletionByTaintManager")
    pod = make_pod(0, "Failed", terminated(143, at=ended), conditions=[taint])
    deletion = {
        "deletionTimestamp": "2026-01-01T00:05:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    pod["metadata"] |= deletion
    jobs = [make_job(end="Failed")]
    task = fold(jobs, [pod])
    assert task.note == f"node-0: {cause} (exit code 143)"
    objects = read_objects({"Job": jobs, "Pod": [pod]})
    assert cause in judge(task, TaskSnapshot(ID, "default", objects)).summary


def test_node_failed_without_pod_has_unknown_cause() -> None:
    node = fold([make_job(end="Failed")], []).nodes[0]
    assert (node.reason, node.state) == ("PodNotFound", State.FAILED)
    assert node.message == "its pod is gone; the cause is not known"
    assert node.ended_at == "2026-01-01T00:09:00Z"


def test_node_unschedulable_has_message() -> None:
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    pods = [make_pod(0, "Pending", conditions=[scheduled])]
    task = fold([make_job()], pods)
    assert task.note == "node-0: Unschedulable"
    assert task.nodes[0].message == message
    pods = [make_pod(0, state=RUNNING), make_pod(1, "Pending", conditions=[scheduled])]
    task = fold([make_job(rank, 2) for rank in range(2)], pods)
    assert (task.state, pipelines.reason(task)) == (State.RUNNING, "node-1: Unschedulable")


def test_node_uses_newest_pod() -> None:
    old = make_pod(0, "Failed", terminated(1))
    new = make_pod(0, state=RUNNING)
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:06:00Z"
    assert fold([make_job()], [new, old]).nodes[0].state is State.RUNNING


UNSTARTED = 3  # retries of pods that never run: a program that fails is not started again


def again(
    limit: int, *pods: dict[str, Any], end: str = "", **counts: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a Job that retries failed pods, and its pods in order."""
    job = make_job(end=end)
    codes = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [33]}}
    lost = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    programs = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [128]}}
    rules = [lost, codes, programs] if limit == UNSTARTED else [lost, codes]
    job["spec"] = {"backoffLimit": limit, "podFailurePolicy": {"rules": rules}}
    job["status"] |= counts
    for at, pod in enumerate(pods):
        pod["metadata"] |= {"name": f"pod-{at}", "creationTimestamp": f"2026-01-01T00:0{at}:00Z"}
    return job, list(pods)


LOST: dict[str, Any] = {
    "conditions": [{"type": "DisruptionTarget", "status": "True"}],
    "reason": "Preempted",
}
AGAIN: list[tuple[Any, State, int, str]] = [
    (
        again(1, make_pod(0, "Failed", terminated(3))),
        State.PENDING,
        0,
        "exit code 3; restart 1 follows",
    ),
    (again(1, make_pod(0, "Failed", terminated(3)), failed=2), State.RUNNING, 1, ""),
    (again(0, make_pod(0, "Failed", terminated(3))), State.RUNNING, 0, ""),
    (
        again(0, make_pod(0, "Failed", terminated(33))),
        State.PENDING,
        0,
        "exit code 33; restart 1 follows",
    ),
    (again(0, make_pod(0, "Failed", **LOST)), State.PENDING, 0, "Preempted; restart 1 follows"),
    (
        again(1, *(make_pod(0, "Failed", terminated(code)) for code in (33, 1, 33))),
        State.PENDING,
        2,
        "exit code 33; restart 3 follows",
    ),
    (again(1, *(make_pod(0, "Failed", terminated(code)) for code in (1, 2))), State.RUNNING, 1, ""),
    (again(1, make_pod(0, "Failed", terminated(1)), make_pod(state=RUNNING)), State.RUNNING, 1, ""),
    (
        again(UNSTARTED, make_pod(0, "Failed", reason="OutOfcpu")),
        State.PENDING,
        0,
        "OutOfcpu; restart 1 follows",
    ),
    (
        again(UNSTARTED, make_pod(0, "Failed", terminated(128, "StartError"))),
        State.PENDING,
        0,
        "StartError (exit code 128); restart 1 follows",
    ),
    (again(UNSTARTED, make_pod(0, "Failed", terminated(3))), State.RUNNING, 0, ""),
    (again(1, make_pod(0, "Failed", terminated(1)), end="Failed", failed=2), State.FAILED, 1, ""),
    (again(3, end="Complete", failed=2, succeeded=1), State.COMPLETED, 2, ""),
]


@pytest.mark.parametrize(("objects", "state", "restarts", "message"), AGAIN)
def test_node_retried_has_state_and_restarts(
    objects: Any, state: State, restarts: int, message: str
) -> None:
    job, pods = objects
    (node,) = fold([job], pods[::-1]).nodes
    assert (node.state, node.restarts) == (state, restarts)
    assert (node.message if node.reason == "Retrying" else "") == message
    assert node.started == bool(pods and pods[-1]["status"]["containerStatuses"])
    assert node.previous == (pods[-2]["metadata"]["name"] if len(pods) > 1 else "")


@pytest.mark.parametrize(
    ("started", "upload", "state"),
    [
        pytest.param(False, True, State.PENDING, id="files awaited"),
        pytest.param(True, True, State.RUNNING, id="files arrived"),
        pytest.param(False, False, State.RUNNING, id="probe of the user"),
    ],
)
def test_node_waiting_for_files_is_pending(started: bool, upload: bool, state: State) -> None:
    pods = [make_pod(rank, state=RUNNING) for rank in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"] = {names.AWAITS_UPLOAD: "true"} if upload else {}
        pod["status"]["containerStatuses"][1]["started"] = started
    task = fold([make_job(rank, 2) for rank in range(2)], pods)
    assert (task.state, task.nodes[0].state) == (state, state)
    assert all(node.started and node.started_at for node in task.nodes), "they have logs"

    if state is State.PENDING:
        hint = f"waits for files; submit again with --id {ID} if no upload is running"
        assert task.note == pipelines.reason(task) == f"node-0: {hint}"
        assert task.detailed_status == "setting_up"
        assert stage(task) is None, "its client reports the upload"
    pods[1]["status"]["containerStatuses"][1]["started"] = True
    task = fold([make_job(rank, 2) for rank in range(2)], pods)
    assert task.state is State.RUNNING
    assert pipelines.reason(task) == (f"node-0: {hint}" if state is State.PENDING else "")


def test_nodes_that_have_not_met_are_pending() -> None:
    pods = [make_pod(rank, state=RUNNING) for rank in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"] = {names.AWAITS_NODES: "true"}
        pod["status"]["containerStatuses"][1]["started"] = False
    task = fold([make_job(rank, 2) for rank in range(2)], pods)
    assert (task.state, task.detailed_status) == (State.PENDING, "setting_up")
    assert all(node.started and node.started_at for node in task.nodes), "they have logs"
    assert task.note == "node-0: waits to meet the other nodes"


def test_task_note_counts_restarts() -> None:
    job, pods = again(3, end="Complete", failed=2, succeeded=1)
    task = fold([job], pods)
    assert task.note == "2 restarts"
    assert task.as_json()["metadata"]["restarts"] == 2
    job, pods = again(1, make_pod(0, "Failed", terminated(1)), end="Failed", failed=2)
    assert fold([job], pods).note == "node-0: exit code 1 after 1 restart"


def test_task_note_counts_the_restarts_of_the_node_that_it_names() -> None:
    jobs = [make_job(0, 2, end="Failed"), make_job(1, 2)]
    jobs[0]["status"]["failed"] = 2
    jobs[1]["status"] |= {"failed": 2, "active": 1}
    for job in jobs:
        job["spec"] = {"backoffLimit": 3}
    task = fold(jobs, [make_pod(0, "Failed", terminated(7)), make_pod(1, "Running")])
    assert [node.restarts for node in task.nodes] == [1, 2]
    assert task.note == "node-0: exit code 7 after 1 restart"


def test_task_update_time_is_that_of_its_last_change() -> None:
    pods = [make_pod(state=terminated(0, at="2026-01-01T00:05:00Z"))]
    assert fold([make_job()], pods).updated_at == "2026-01-01T00:05:00Z"


def test_tasks_are_sorted_newest_first() -> None:
    old = make_job()
    new = make_job(task_id="zzzz2345")
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    assert [task.id for task in tasks([read_job(old), read_job(new)], [])] == [
        "zzzz2345",
        "bcdf2345",
    ]


def test_task_with_missing_nodes_is_incomplete() -> None:
    assert fold([make_job(0, 3)], []).note == "incomplete: 1 of 3 nodes found"


def test_task_json_has_documented_fields() -> None:
    jobs = [make_job(0, 2, "Complete"), make_job(1, 2)]
    shown = dict(fold(jobs, [make_pod(1, state=RUNNING)]).as_json())

    metadata = shown.pop("metadata")
    assert shown == {
        "apiVersion": "kubectl-sky/v1",
        "kind": "Task",
        "task_id": "bcdf2345",
        "name": "train",
        "status": "running",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:09:00Z",
        "username": "alice",
    }
    assert isinstance(metadata, dict)
    assert metadata["job_name"] == "train-bcdf2345-node-0"
    assert metadata["node_jobs"] == ["train-bcdf2345-node-0", "train-bcdf2345-node-1"]
    assert [metadata[f"{s}_nodes"] for s in ("succeeded", "failed", "running", "pending")] == [
        1,
        0,
        1,
        0,
    ]


def test_status_object_without_task_labels_is_ignored() -> None:
    job = make_job()
    job["metadata"] = make_metadata("x") | {"labels": {"skypilot-task": "true"}, "annotations": {}}
    assert tasks([read_job(job)], []) == []
    job["metadata"] = make_metadata("x", 0) | {"annotations": {}}
    assert fold([job], []).num_nodes == 1


def test_node_queued_names_queue() -> None:
    job = make_job()
    job["spec"]["suspend"] = True
    (node,) = fold([job], []).nodes
    assert (node.reason, node.message) == ("Suspended", "the Job is suspended")
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    (node,) = fold([job], []).nodes
    assert (node.reason, node.message) == ("Queued", "in the queue team")


@pytest.mark.parametrize(
    ("message", "reason", "phase"),
    [
        ("setup failed with exit code 3\n", "FAILED_SETUP", "setup"),
        ("gave up waiting for the other nodes after 8 seconds: …", "NODES_MISSING", "start"),
        ("my own setup failed with exit code 3", "Error", ""),
        ("", "Error", ""),
    ],
)
def test_node_failed_phase_follows_message(message: str, reason: str, phase: str) -> None:
    state = terminated(3)
    state["terminated"]["message"] = message
    task = fold([make_job(end="Failed")], [make_pod(0, "Failed", state)])
    [node] = task.nodes
    assert (node.reason, node.phase, node.message) == (
        reason,
        phase,
        message.strip() or node.message,
    )
    assert node.as_json().get("phase", "") == phase


def test_node_failed_init_container_gives_reason() -> None:
    ends = {"exitCode": 1, "reason": "Error", "message": "s3://b could not be copied: no such\n"}
    fetches = [
        {"name": "bucket-0", "state": {"terminated": {"exitCode": 0}}},
        {"name": "bucket-1", "state": {"terminated": ends}},
    ]
    waiting = {"waiting": {"reason": "PodInitializing"}}
    pod = make_pod(0, "Failed", waiting, initContainerStatuses=fetches)
    (task,) = tasks([read_job(make_job(0, 1, "Failed"))], [read_pod(pod)])
    node = task.nodes[0]
    assert (node.reason, node.exit_code) == ("Error", 1)
    assert node.message == "s3://b could not be copied: no such"


def test_node_killed_before_its_end_does_not_blame_sidecar() -> None:
    ends = [{"name": "bucket-0-sync", "state": {"terminated": {"exitCode": 137}}}]
    waiting = {"waiting": {"reason": "PodInitializing"}}
    pod = make_pod(0, "Failed", waiting, initContainerStatuses=ends)
    pod["spec"]["initContainers"] = [{"name": "bucket-0-sync", "restartPolicy": "Always"}]
    (task,) = tasks([read_job(make_job(0, 1, "Failed"))], [read_pod(pod)])
    assert task.nodes[0].exit_code is None


def test_packed_objects_give_same_tasks_as_read_objects() -> None:
    """Compare on recorded objects of all backends what a long watch keeps as JSON."""
    folder = Path(__file__).parent / "snapshots"
    for file in folder.glob("*.json"):
        found = json.loads(file.read_text())["objects"]
        pods = read_pods(found.pop("Pod", []))
        items = read_jobs(item for kind, each in found.items() if kind in RUN for item in each)
        packed = [(pack(item).data, type(item)) for item in items]
        packed_pods = [pack(pod).data for pod in pods]
        unpacked = [decode(data, shape) for data, shape in packed]
        again = tasks(unpacked, [decode(data, Pod) for data in packed_pods])
        assert again == tasks(items, pods), file.name


def with_retries(retries: int) -> Json:
    job = make_job()
    job["spec"]["backoffLimit"] = retries
    return job


def make_ended(**changes: Any) -> Json:
    """A pod whose annotation says that a client ended it after `main`."""
    pod = make_pod(**changes)
    pod["metadata"]["annotations"][names.MAIN_ENDED] = "2026-01-01T00:05:00Z"
    return pod


KEPT = "container sidecar keeps the pod"


@pytest.mark.parametrize(
    ("job", "code", "state", "note"),
    [
        (make_job(), 0, State.COMPLETED, KEPT),
        (make_job(), 3, State.FAILED, f"node-0: exit code 3; {KEPT}"),
        (with_retries(1), 0, State.COMPLETED, KEPT),
        (with_retries(1), 3, State.RUNNING, KEPT),
    ],
)
def test_task_main_ended_beside_running_container_decides_state(
    job: Json, code: int, state: State, note: str
) -> None:
    task = fold([job], [make_pod(state=terminated(code))])
    assert (task.state, task.note, task.nodes[0].kept_by) == (state, note, "sidecar")
    assert task.finished is state.ended


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "Evicted"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Preemption"}]},
    ],
)
def test_task_main_ended_by_disruption_is_not_completed(change: dict[str, Any]) -> None:
    """A program may exit with 0 when it is evicted."""
    task = fold([make_job()], [make_pod(state=terminated(0), **change)])
    assert (task.state, task.kept) == (State.RUNNING, ())


def test_task_native_sidecar_beside_ended_main_keeps_nothing() -> None:
    pod = make_pod(state=terminated(0))
    pod["status"]["initContainerStatuses"] = [pod["status"]["containerStatuses"].pop(0)]
    task = fold([make_job()], [pod])
    assert (task.kept, task.note) == ((), "")


@pytest.mark.parametrize(("phase", "late"), [("Running", {}), ("Failed", {})])
def test_task_pod_ended_after_main_keeps_cause_of_main(phase: str, late: dict[str, Any]) -> None:
    """The kubelet reports its deadline, and the Job counts a failure."""
    late = {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer"}
    pod = make_ended(phase=phase, state=terminated(3), **late)
    task = fold([make_job(end="Failed")], [pod])
    assert (task.state, task.note, task.kept) == (State.FAILED, "node-0: exit code 3", ())
    job = make_job(end="Failed")
    pod = make_ended(phase=phase, state=terminated(0), **late)
    job["metadata"]["annotations"][names.MAIN_ENDED] = "2026-01-01T00:05:00Z"
    for pods in ([pod], []):
        task = fold([job], pods)
        assert (task.state, task.note) == (State.COMPLETED, "")


def test_task_that_is_late_fails_in_the_words_of_its_job_while_its_pod_is_deleted() -> None:
    """The kubelet has ended the pod, and deletes it without a grace period."""
    job = make_job(end="Failed")
    pod = make_pod(phase="Failed", state=terminated(143))
    job["status"]["conditions"][-1]["reason"] = "DeadlineExceeded"
    job["metadata"]["annotations"][names.MAX_DURATION] = "3s"
    pod["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:05:02Z",
        "deletionGracePeriodSeconds": 0,
    }
    note = "node-0: DeadlineExceeded (exit code 143): it ran longer than max_duration 3s"
    assert fold([job], [pod]).note == note


@pytest.mark.parametrize(("code", "state"), [(0, State.COMPLETED), (3, State.FAILED)])
def test_indexed_task_main_ended_beside_running_container_decides_state(
    code: int, state: State
) -> None:
    pods = [make_indexed_pod(rank, state=terminated(rank and code)) for rank in range(2)]
    task = fold([make_whole(2)], pods)
    assert (task.state, task.finished) == (state, True)
    assert task.note.endswith("container sidecar keeps 2 pods")


def held_pod(message: str, state: Json) -> Json:
    pod = make_pod(1, state=state)
    end = {"terminated": {"exitCode": 0, "message": message, "finishedAt": "2026-01-01T00:05:00Z"}}
    pod["status"]["initContainerStatuses"] = [{"name": "hold", "lastState": end, "state": RUNNING}]
    return pod


def test_status_of_held_container_is_failed_until_its_end() -> None:
    jobs = [make_job(0, 2), make_job(1, 2)]
    message = "held 1767227400 7 run\n"
    task = fold(jobs, [make_pod(0, state=RUNNING), held_pod(message, RUNNING)])
    node = task.nodes[1]
    assert (task.state, node.state, node.exit_code) == (State.FAILED, State.FAILED, 7)
    assert node.held_until == "2026-01-01T00:30:00Z"
    assert task.note == "node-1: exit code 7; the container is held until 2026-01-01T00:30:00Z"
    assert task.next_step == f"kubectl sky exec {ID} --rank 1 -it -- bash"
    assert task.surviving_jobs == (f"train-{ID}-node-0",)
    assert task.state_at(datetime(2026, 1, 1, 0, 1, tzinfo=UTC)) == "failed (held 29m)"
    ended = fold(jobs, [make_pod(0, state=RUNNING), held_pod(message, terminated(7))])
    assert (ended.state, ended.nodes[1].held_until, ended.held) == (State.FAILED, "", ())


@pytest.mark.parametrize("message", ["", "held", "held x 7 run", "held 1 7 walk", "OOMKilled"])
def test_status_of_sidecar_with_another_end_is_running(message: str) -> None:
    task = fold([make_job(1)], [held_pod(message, RUNNING)])
    assert (task.state, task.held) == (State.RUNNING, ())


def test_status_of_held_setup_is_failed_setup() -> None:
    task = fold([make_job(1)], [held_pod("held 1767227400 3 setup", RUNNING)])
    assert task.detailed_status == "failed_setup"
