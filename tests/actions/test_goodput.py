"""Record what the time of finished tasks went into, over a cluster in memory."""

from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest

from kubectl_sky.errors import TaskFailed
from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.tasks import find, goodput
from kubectl_sky.tasks.find import Scope
from tests.actions.conftest import Submitter
from tests.builders import ID, make_job
from tests.fake_cluster import FakeCluster
from tests.reading import read_jobs

JOB = f"train-{ID}"


def finished() -> list[TaskStatus]:
    """Two tasks that have completed."""
    (task,) = tasks(read_jobs([make_job(0, 1, "Complete")]), [])
    return [task, task]


def test_follow_interrupted_while_it_records_reports_the_outcome(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    def run() -> None:
        api.start(JOB)
        api.finish(JOB, 3)

    monkeypatch.setattr(goodput, "record", interrupt)
    send.ui.then = run
    with pytest.raises(TaskFailed, match="failed: node-0: exit code 3"):
        send("name: train\nrun: 'false'\n", follow=True)


def test_record_ended_records_several_tasks_at_once(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = Barrier(2, timeout=5)
    monkeypatch.setattr(goodput, "record", lambda session, task: barrier.wait())
    goodput.record_ended(api.session(), finished())
    assert not barrier.broken


def test_record_ended_when_time_is_over_records_nothing(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[TaskStatus] = []
    monkeypatch.setattr(goodput, "record", lambda session, task: recorded.append(task))
    goodput.record_ended(api.session(), finished(), lambda: True)
    assert recorded == []


def start_nodes(api: FakeCluster, send: Submitter) -> list[str]:
    """Let both nodes of a task run for two minutes; return their Jobs."""
    send("name: train\nnum_nodes: 2\nrun: 'true'\n")
    jobs = [f"{JOB}-node-{node}" for node in range(2)]
    for job in jobs:
        api.log(api.start(job), b"step 1\nstep 2\nstep 3\n")
    api.ahead += timedelta(minutes=2)
    return jobs


def record(api: FakeCluster) -> TaskStatus:
    session = api.session()
    (task,) = find.list_tasks(session, Scope("default", None))
    assert task.state.ended
    return goodput.record(session, task)


def test_record_failed_task_whose_first_node_runs_keeps_nothing(
    api: FakeCluster, send: Submitter
) -> None:
    first, second = start_nodes(api, send)
    api.finish(second, 3)
    assert record(api).goodput is None
    assert api.count("patch jobs") == 0
    api.finish(first, 143)
    assert record(api).goodput
    assert api.count("patch jobs") == 1


def test_record_without_right_to_patch_returns_the_goodput(
    api: FakeCluster, send: Submitter
) -> None:
    for job in start_nodes(api, send):
        api.finish(job)
    api.forbidden.add("patch jobs")
    assert record(api).goodput
