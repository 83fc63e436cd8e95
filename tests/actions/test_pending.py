"""Reasons of pending nodes in lists: warnings of the cluster, and pods without a scheduler."""

import json
from collections.abc import Iterator

import pytest

from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import pending, watch
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter, put_warning
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: train\nrun: echo hello\n"
JOB = f"train-{ID}"
OTHER = "bcdg6789"
REJECTED = 'node-0: RuntimeClass "fast" not found'


def listed(run: Run) -> dict[str, str]:
    """Return the note of each task by its id, from one `list`."""
    tasks = json.loads(run("list", "-o", "json")[1])["tasks"]
    return {task["task_id"]: task["metadata"]["note"] for task in tasks}


def test_list_of_rejected_pods_has_reason_with_one_request(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    send(TASK, task_id=OTHER)
    put_warning(api, JOB)
    put_warning(api, f"train-{OTHER}")
    api.requests.clear()
    code, out, _ = run("list")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][-1] == "REASON"
    assert [" ".join(row[5:]) for row in rows[1:]] == [REJECTED] * 2
    assert api.count("list events") == 1


def test_list_without_unexplained_nodes_reads_no_events(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    api.start(JOB)
    send(TASK, task_id=OTHER)
    api.start(f"train-{OTHER}")
    api.finish(f"train-{OTHER}")
    put_warning(api, JOB)
    assert listed(run) == {ID: "", OTHER: ""}
    assert api.count("list events") == 0


def test_list_of_running_array_reads_no_events(api: FakeCluster, run: Run, send: Submitter) -> None:
    send(TASK, array="0-9%1")
    api.start(JOB)
    assert len(listed(run)) == 1
    assert api.count("list events") == 0


def test_list_without_right_to_list_events_has_no_reason(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    put_warning(api, JOB)
    api.forbidden.add("list events")
    assert listed(run) == {ID: ""}


def test_list_ignores_warning_about_deleted_job_of_same_name(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    put_warning(api, JOB, uid="uid-of-earlier-job")
    assert listed(run) == {ID: ""}
    put_warning(api, JOB, uid=api.get(kinds.JOB, JOB)["metadata"]["uid"])
    assert listed(run) == {ID: REJECTED}


def test_list_of_pod_that_no_scheduler_handles_has_reason(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    spec = {"schedulerName": "missing", "containers": []}
    api.change(kinds.POD, api.start(JOB), spec=spec, status={"phase": "Pending"})
    assert listed(run) == {ID: "node-0: NotScheduled"}
    message = 'scheduler "missing" has not handled the pod'
    assert message in run("status", ID)[1]


def test_watch_explained_reads_warnings_that_come_without_change(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(TASK)
    for name in ("_FIRST_LOOK", "_LOOK_INTERVAL"):
        monkeypatch.setattr(pending, name, 0.0)
    owned = watch.watch_owned(api.session(), Scope("default", None))
    first = next(update for update in owned if update)

    def updates() -> Iterator[watch.TaskUpdate | None]:
        yield first
        yield None
        put_warning(api, JOB)
        yield None
        yield None

    monkeypatch.setattr(watch, "watch_owned", lambda *arguments: updates())
    shown = list(pending.watch_explained(api.session(), Scope("default", None)))

    def note(tasks: list[TaskStatus]) -> str:
        return tasks[0].note

    assert [update and note(update.tasks) for update in shown] == [
        "",
        None,
        REJECTED,
        None,
    ]
