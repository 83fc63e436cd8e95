"""What is said while a task starts."""

from kubectl_sky.observe.status import tasks
from kubectl_sky.observe.waiting import notes
from tests.builders import make_job, make_pod, terminated

CREATING = {"waiting": {"reason": "ContainerCreating"}}


def test_nodes_that_wait_for_the_same_are_told_together() -> None:
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


def test_a_usual_start_is_mentioned_only_after_a_while() -> None:
    (task,) = tasks([make_job()], [make_pod(phase="Pending", state=CREATING)])
    assert notes(task, patient=True) == []
    assert notes(task, patient=False) == ["waiting for node-0 to start"]


def test_a_failure_is_told_while_other_nodes_go_on() -> None:
    failed = make_pod(0, "Failed", terminated(1))
    jobs = [make_job(0, 2, "Failed"), make_job(1, 2)]
    (task,) = tasks(jobs, [failed, make_pod(1, state={"running": {}})])
    assert notes(task, patient=False) == ["node-0 failed: Error; the other nodes go on"]
    stopping = notes(task, patient=False, stopping=True)
    assert stopping == ["node-0 failed: Error; the other nodes are being stopped"]
    (task,) = tasks([make_job(end="Failed")], [failed])
    assert notes(task, patient=False) == []


def test_a_node_that_starts_again_is_told_each_time() -> None:
    job = make_job()
    job["spec"]["backoffLimit"] = 2
    (task,) = tasks([job], [make_pod(0, "Failed", terminated(3))])
    assert notes(task, patient=True) == [
        "node-0 failed and starts again: Error (exit code 3); restart 1 follows"
    ]
