"""Watch tasks of a cluster in memory."""

from threading import Event, Timer

import pytest

from kubectl_sky.observe.nodes import State
from kubectl_sky.tasks import find, watch
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter, lose
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TWO = "name: train\nnum_nodes: 2\nrun: echo hello\n"


def test_watch_tasks_goes_on_after_an_outage_during_a_lookup(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch outlasts an outage, so the lookup of why nodes are missing has to as well."""
    monkeypatch.setattr(watch, "_SETTLE_SECONDS", 0)
    send(TWO)
    api.remove(kinds.JOB, f"train-{ID}-node-1")
    lose(api, "list services")
    for tasks in watch.watch_tasks(api.session(), Scope("default", None)):
        if tasks and tasks[0].state is State.FAILED:
            break
    assert api.count("list services") > 6


def test_watch_task_waits_for_slow_kind_while_another_is_read_again(
    api: FakeCluster, send: Submitter
) -> None:
    """The Jobs are not deleted: they have not been read yet."""
    send(TWO)
    task = find.get_task(api.session(), Scope("default", None), ID)
    jobs_may_be_read = Event()

    def wait() -> None:
        jobs_may_be_read.wait(60)

    api.before("watch jobs", wait)
    api.after("watch pods", api.break_streams)
    api.before("watch pods", lambda: 410, nth=2)
    api.after("watch pods", Timer(0.5, jobs_may_be_read.set).start, nth=2)
    snapshots = watch.watch_task(api.session(), task)
    assert next(filter(None, snapshots)).task.id == ID
    assert api.count("watch pods") == 3
