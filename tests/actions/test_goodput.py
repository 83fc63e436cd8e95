"""Record what the time of finished tasks went into, over a cluster in memory."""

from threading import Barrier
from typing import Any

import pytest

from kubectl_sky.errors import TaskFailed
from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.tasks import goodput
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
