"""Notes while a task starts."""

from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.observe.waiting import notes, stage
from tests.builders import Json, make_job, make_pod, terminated
from tests.reading import read_job, read_jobs, read_pod, read_pods

CREATING = {"waiting": {"reason": "ContainerCreating"}}


def unscheduled(message: str = "no") -> Json:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }


def make_waiting(*pods: Json, nodes: int = 1) -> TaskStatus:
    (task,) = tasks(read_jobs(make_job(rank, nodes) for rank in range(nodes)), read_pods(pods))
    return task


def text(task: TaskStatus, cause: str = "") -> str:
    current = stage(task, cause)
    return current.text if current else ""


def make_starting(rank: int = 0, *conditions: Json, **status: object) -> Json:
    pod = make_pod(rank, "Pending", CREATING, conditions=list(conditions), **status)
    pod["status"]["containerStatuses"][1]["image"] = "python:3.13-slim"
    return pod


def test_stage_follows_start_of_pod() -> None:
    unbound = make_pod(phase="Pending")
    unbound["spec"] = {}
    init: Json = {"name": "fetch", "image": "rclone:1", "state": {"running": {}}}

    stages = [
        make_waiting(),
        make_waiting(unbound),
        make_waiting(make_starting()),
        make_waiting(make_starting(initContainerStatuses=[init])),
        make_waiting(make_starting(initContainerStatuses=[init | {"state": CREATING}])),
        make_waiting(make_pod(state={"running": {}})),
    ]
    assert list(map(text, stages)) == [
        "train: waiting for a pod",
        "train: waiting for a cluster node",
        "train: preparing python:3.13-slim on worker-1",
        "train: running init container fetch on worker-1",
        "train: preparing rclone:1 on worker-1",
        "",
    ]
    assert all(current is None or current.normal for current in map(stage, stages))


def test_stage_of_blocked_nodes_has_cause_as_soon_as_known() -> None:
    task = make_waiting(make_pod(0, "Pending", conditions=[unscheduled()]))
    current = stage(task)
    assert current and (current.text, current.normal) == (
        "train: pending: Unschedulable: no",
        False,
    )
    assert text(task, "too little cpu") == "train: pending: too little cpu"


def test_stage_of_several_nodes_names_those_furthest_behind() -> None:
    pods = [make_pod(rank, "Pending", conditions=[unscheduled()]) for rank in range(6)]
    task = make_waiting(*pods, nodes=6)
    assert text(task) == "train: pending: Unschedulable: no"
    pods[0] = make_pod(0, state={"running": {}})
    pods[1] = make_starting(1)
    assert text(make_waiting(*pods, nodes=6)) == (
        "train: 1 of 6 nodes have started; node-2, node-3, node-4, node-5:"
        " pending: Unschedulable: no"
    )
    ready = [make_pod(0, state={"running": {}}), make_starting(1), make_starting(2)]
    assert text(make_waiting(*ready, nodes=3)) == (
        "train: 1 of 3 nodes have started; node-1, node-2: preparing python:3.13-slim on worker-1"
    )


def test_notes_failed_node_is_noted_while_remaining_run() -> None:
    failed = make_pod(0, "Failed", terminated(1))
    jobs = [make_job(0, 2, "Failed"), make_job(1, 2)]
    (task,) = tasks(
        read_jobs(jobs), [read_pod(failed), read_pod(make_pod(1, state={"running": {}}))]
    )
    assert notes(task) == ["node-0 failed: exit code 1; the other nodes go on"]
    stopping = notes(task, stopping=True)
    assert stopping == ["node-0 failed: exit code 1; the other nodes are being stopped"]
    (task,) = tasks([read_job(make_job(end="Failed"))], [read_pod(failed)])
    assert notes(task) == []


def test_notes_retried_node_is_noted_with_restart() -> None:
    job = make_job()
    job["spec"]["backoffLimit"] = 2
    (task,) = tasks([read_job(job)], [read_pod(make_pod(0, "Failed", terminated(3)))])
    assert notes(task) == ["node-0 failed and starts again: exit code 3; restart 1 follows"]
