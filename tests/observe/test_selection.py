"""Selection of tasks in a list: filters, order and state names."""

from datetime import UTC, datetime, timedelta

import pytest

from kubectl_sky.observe import selection
from kubectl_sky.observe.reasons import DetailedStatus
from kubectl_sky.observe.selection import Selection
from kubectl_sky.observe.status import TaskStatus, tasks
from tests.builders import make_job, make_pod, terminated
from tests.reading import read_job, read_jobs, read_pod, read_pods


def make_task(name: str, at: str, end: str = "", nodes: int = 1) -> TaskStatus:
    jobs = [make_job(rank, nodes, end, task_id=name) for rank in range(nodes)]
    for job in jobs:
        job["metadata"]["creationTimestamp"] = at
        job["metadata"]["annotations"]["kubectl-sky/name"] = name
    (task,) = tasks(read_jobs(jobs), [])
    return task


OLD = make_task("old", "2026-01-01T00:00:00Z", "Complete")
BIG = make_task("big", "2026-01-02T00:00:00Z", nodes=3)
BAD = make_task("bad", "2026-01-03T00:00:00Z", "Failed")
EVERY = [OLD, BIG, BAD]
NOW = datetime(2026, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        (Selection(), ["bad", "big", "old"]),
        (Selection(order="name"), ["bad", "big", "old"]),
        (Selection(order="nodes"), ["big", "bad", "old"]),
        (Selection(order="status"), ["big", "bad", "old"]),
        (Selection(limit=1), ["bad"]),
        (Selection(states=("completed",)), ["old"]),
        (Selection(states=("succeeded", "failed")), ["bad", "old"]),
        (Selection(states=("queued",)), []),
        (Selection(since=timedelta(days=1)), ["bad", "big"]),
        (Selection(since=timedelta(days=1), order="name", limit=1), ["bad"]),
    ],
)
def test_selection_filters_sorts_and_limits(chosen: Selection, shown: list[str]) -> None:
    assert [task.id for task in chosen.select(EVERY, NOW)] == shown


@pytest.mark.parametrize("order", selection.ORDERS)
def test_selection_every_order_keeps_all_tasks(order: str) -> None:
    assert {task.id for task in Selection(order=order).select(EVERY, NOW)} == {"old", "big", "bad"}


def test_selection_states_are_unique() -> None:
    words = selection.states()
    assert words[:4] == ("pending", "running", "failed", "completed")
    assert set(DetailedStatus) | {"succeeded"} <= set(words)
    assert len(set(words)) == len(words)


WAITING = {"waiting": {"reason": "ContainerCreating"}}
LOST = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}


def test_detailed_status_of_single_node_follows_pods() -> None:
    held = make_job()
    held["spec"] = {"suspend": True}
    unplaced = make_pod(phase="Pending", conditions=[LOST])
    unplaced["spec"] = {}

    for job, pods, status in (
        (held, [], DetailedStatus.QUEUED),
        (make_job(), [], DetailedStatus.PENDING),
        (make_job(), [unplaced], DetailedStatus.PENDING),
        (make_job(), [make_pod(phase="Pending", state=WAITING)], DetailedStatus.SETTING_UP),
        (make_job(), [make_pod(state={"running": {}})], DetailedStatus.RUNNING),
        (make_job(end="Complete"), [], DetailedStatus.COMPLETED),
        (make_job(end="Failed"), [make_pod(state=terminated(1))], DetailedStatus.FAILED),
    ):
        (task,) = tasks([read_job(job)], read_pods(pods))
        assert task.detailed_status is status, (task.state, task.nodes)
        assert status in str(task.as_json())


def test_detailed_status_of_two_nodes_is_setting_up_until_running() -> None:
    jobs = [make_job(0, 2), make_job(1, 2)]
    (task,) = tasks(read_jobs(jobs), [read_pod(make_pod(1, "Pending", WAITING))])
    assert task.detailed_status is DetailedStatus.SETTING_UP
    (task,) = tasks(
        read_jobs(jobs),
        [read_pod(make_pod(1, "Pending", WAITING)), read_pod(make_pod(0, state={"running": {}}))],
    )
    assert task.detailed_status is DetailedStatus.RUNNING


def test_node_has_start_and_end_times() -> None:
    state = {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z"}}
    state["terminated"]["finishedAt"] = "2026-01-01T00:05:10Z"
    (task,) = tasks([read_job(make_job())], [read_pod(make_pod(state=state))])
    assert task.nodes[0].started_at == "2026-01-01T00:00:00Z"
    assert task.nodes[0].ended_at == "2026-01-01T00:05:10Z"
