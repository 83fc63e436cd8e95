"""Notes while a task starts."""

from kubectl_sky.observe.status import tasks
from kubectl_sky.observe.waiting import notes
from tests.builders import make_job, make_pod, terminated

CREATING = {"waiting": {"reason": "ContainerCreating"}}


def test_notes_group_nodes_with_same_reason() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
    }
    pods = [make_pod(rank, "Pending", conditions=[condition]) for rank in range(6)]
    (task,) = tasks([make_job(rank, 6) for rank in range(6)], pods)
    assert notes(task, patient=True) == [
        "waiting for node-0, node-1, node-2, node-3 and 2 more: Unschedulable: no"
    ]


def test_notes_ordinary_start_is_noted_only_after_delay() -> None:
    (task,) = tasks([make_job()], [make_pod(phase="Pending", state=CREATING)])
    assert notes(task, patient=True) == []
    assert notes(task, patient=False) == ["waiting for node-0 to start"]


def test_notes_failed_node_is_noted_while_remaining_run() -> None:
    failed = make_pod(0, "Failed", terminated(1))
    jobs = [make_job(0, 2, "Failed"), make_job(1, 2)]
    (task,) = tasks(jobs, [failed, make_pod(1, state={"running": {}})])
    assert notes(task, patient=False) == ["node-0 failed: exit code 1; the other nodes go on"]
    stopping = notes(task, patient=False, stopping=True)
    assert stopping == ["node-0 failed: exit code 1; the other nodes are being stopped"]
    (task,) = tasks([make_job(end="Failed")], [failed])
    assert notes(task, patient=False) == []


def test_notes_retried_node_is_noted_with_restart() -> None:
    job = make_job()
    job["spec"]["backoffLimit"] = 2
    (task,) = tasks([job], [make_pod(0, "Failed", terminated(3))])
    assert notes(task, patient=True) == [
        "node-0 failed and starts again: exit code 3; restart 1 follows"
    ]
