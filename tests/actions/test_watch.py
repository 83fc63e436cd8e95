"""Watch tasks of a cluster in memory."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from kubectl_sky.cluster.session import Json
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.observe import status
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import evidence, find, watch
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds
from kubectl_sky.words.objects import NO_OBJECT
from tests.actions.conftest import Submitter, lose
from tests.builders import ID, make_job, make_pod, terminated
from tests.fake_cluster import FakeCluster
from tests.reading import read, read_jobs, read_pod, read_pods

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


class _ToldEvents(watch.SharedWatches):
    """A watch that tells given events, and no more."""

    def __init__(self, *events: WatchEvent) -> None:
        self._events = events

    def changes(self, task: TaskStatus, stop: Event | None) -> Iterator[WatchEvent | None]:
        yield from self._events


def test_cause_of_deleted_pod_is_kept_if_its_job_is_told_to_have_failed_first(
    api: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds are watched separately, and the pod is gone when the watch of the Jobs is ahead."""
    monkeypatch.setenv("KUBECTL_SKY_CACHE_HOME", str(tmp_path))

    def tell(kind: kinds.ReadKind[Any], item: Json) -> WatchEvent:
        return WatchEvent(Change.MODIFIED, kind, read(kind, item))

    running = make_job(0)
    failed = make_job(0, end="Failed")
    pod = make_pod(0, "Running")
    end = terminated(137)
    end["terminated"]["message"] = "3 files not written back"
    failed_pod = make_pod(0, "Failed", end)
    events = _ToldEvents(
        tell(kinds.JOB, running),
        tell(kinds.POD, pod),
        WatchEvent(Change.SYNCED, kinds.JOB, NO_OBJECT),
        WatchEvent(Change.SYNCED, kinds.POD, NO_OBJECT),
        tell(kinds.JOB, failed),
        tell(kinds.POD, failed_pod),
        WatchEvent(Change.DELETED, kinds.POD, read_pod(failed_pod)),
    )
    (task,) = status.tasks(read_jobs([running]), read_pods([pod]))
    ended = watch.wait_for_task(api.session(), task, watch.Wait(), shared=events)
    kept = evidence.of_task(api.session(), ended)
    assert kept
    assert [death.message for death in kept.deaths] == ["3 files not written back"]
