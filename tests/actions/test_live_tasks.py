"""A list of tasks that is followed for hours, over a cluster in memory."""

from itertools import groupby
from threading import Event

import pytest

from kubectl_sky.tasks import live
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.live import LiveTasks
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter
from tests.fake_cluster import FakeCluster


def test_live_tasks_between_changes_explain_only_some_tasks_that_wait(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a change waits for thousands of tasks that start."""
    monkeypatch.setattr(live, "_BATCH", 2)
    monkeypatch.setattr(live, "_FOLD_INTERVAL", 0)
    monkeypatch.setattr(live, "_LOOK_INTERVAL", 0)
    ids = [f"a000000{number}" for number in range(5)]
    for task_id in ids:
        send("name: waits\nrun: echo hello\n", task_id=task_id)

    tasks = LiveTasks(api.session(), Scope("default", None))
    stop = Event()
    explained: list[set[str]] = []
    turns = groupby(tasks.changes(stop), bool)  # what is yielded between two looks at the watch
    for has_changed, turn in turns:
        if not has_changed:
            continue
        found = {task.id for changes in turn if changes for task in changes.tasks}
        explained.append(found)
        if set().union(*explained[1:]) == set(ids):
            stop.set()

    first, *later = explained
    assert first == set(ids)
    assert all(len(found) <= 2 for found in later)


def test_live_tasks_tell_a_change_while_they_look_at_why_others_wait(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_FOLD_INTERVAL", 0)
    for task_id in ("a0000001", "a0000002"):
        send("name: waits\nrun: echo hello\n", task_id=task_id)

    looks = Event()
    is_told = Event()

    def wait() -> None:
        looks.set()
        assert is_told.wait(60)

    api.before("list events", wait)
    stop = Event()
    for changes in LiveTasks(api.session(), Scope("default", None)).changes(stop):
        if looks.is_set():
            api.remove(kinds.JOB, "waits-a0000001")
            looks.clear()
        if changes and changes.gone:
            is_told.set()
            stop.set()
    assert is_told.is_set()
