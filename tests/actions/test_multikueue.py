"""Copies of a task's objects in the worker clusters of MultiKueue, on clusters in memory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Interrupted, Unreachable
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.submitting.preflight import refuse_foreign
from kubectl_sky.tasks import find, multikueue
from kubectl_sky.words import kinds, names
from tests.actions.conftest import Recorder, Submitter
from tests.actions.drafts import drafted, plans
from tests.fake_cluster import FakeCluster

HELLO = "name: hello\nrun: echo hello\n"
WORKERS = Connection(workers=("near", "far"))


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeCluster], None]:
    """Make one cluster the worker `near`; `far` does not answer."""

    def reach(near: FakeCluster) -> None:
        def worker(_: Session, context: str) -> Session:
            if context == "far":
                raise Unreachable("cannot reach far")
            return near.session()

        monkeypatch.setattr(Session, "worker", worker)

    return reach


def sent(api: FakeCluster, send: Submitter) -> tuple[Session, TaskStatus]:
    send(HELLO)
    session = api.session(WORKERS)
    (task,) = find.list_tasks(session, find.Scope("default", None))
    return session, task


def test_delete_copies_of_unreachable_worker_is_a_warning(
    api: FakeCluster, send: Submitter, reach: Callable[[FakeCluster], None]
) -> None:
    reach(FakeCluster())
    session, task = sent(api, send)
    assert multikueue.delete_copies(session, [task]) == [
        'copies in the worker cluster "far" may remain: cannot reach far'
    ]


def test_delete_copies_keeps_what_is_no_copy(
    api: FakeCluster, send: Submitter, reach: Callable[[FakeCluster], None]
) -> None:
    near = FakeCluster()
    reach(near)
    _, task = sent(api, send)
    labels = api.get(kinds.JOB, f"hello-{task.id}")["metadata"]["labels"]
    for name, annotations in (("copy", {names.MULTIKUEUE_COPY: "true"}), ("other", {})):
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        near.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    session = api.session(Connection(workers=("near",)))
    assert multikueue.delete_copies(session, [task]) == []
    assert near.names() == ["configmaps other"]


def test_delete_copies_without_workers_sends_nothing(api: FakeCluster, send: Submitter) -> None:
    _, task = sent(api, send)
    api.requests.clear()
    assert multikueue.delete_copies(api.session(), [task]) == []
    assert api.requests == []


def test_copies_are_deleted_again_if_the_submit_fails(
    api: FakeCluster, reach: Callable[[FakeCluster], None], tmp_path: Path
) -> None:
    near = FakeCluster()
    near.namespace = "team"  # as of the drafts
    reach(near)
    task_file = drafted(HELLO, tmp_path)
    manifests = task_file.render(plans(task_file))
    session = api.session(Connection(workers=("near",)))
    with pytest.raises(Unreachable), multikueue.copy_to_workers(session, manifests, refuse_foreign):
        assert any(name.startswith("configmaps hello-") for name in near.names())
        raise Unreachable("the manager is gone")
    assert near.names() == []


def test_copies_stay_if_the_submit_succeeds(
    api: FakeCluster, reach: Callable[[FakeCluster], None], tmp_path: Path
) -> None:
    near = FakeCluster()
    reach(near)
    task_file = drafted(HELLO, tmp_path)
    manifests = task_file.render(plans(task_file))
    session = api.session(Connection(workers=("near",)))
    with multikueue.copy_to_workers(session, manifests, refuse_foreign):
        pass
    assert near.names() and api.names() == []


def test_interrupted_wait_for_a_cluster_says_how_to_go_on(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    session, task = sent(api, send)
    monkeypatch.setattr(multikueue, "sleep", interrupt)
    with pytest.raises(Interrupted, match=f"task {task.id} stays in its queue") as error:
        multikueue.wait_until_sent(session, task, Recorder())
    assert f"kubectl sky wait {task.id}" in error.value.hint
    assert f"kubectl sky stop {task.id}" in error.value.hint
