"""Deleted means gone: stop ends when the pods are gone, or says what keeps them."""

import json
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky import Client
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster, interrupt

TASK = "name: train\nrun: train\n"
JOB = f"train-{ID}"
STUCK = "example.com/stuck"
SILENT = [
    {"type": "Ready", "status": "False"},
    {"type": "ContainersReady", "status": "True"},
]


def hold(api: FakeCluster, job: str = JOB) -> None:
    """Let a finalizer that nobody removes keep a Job."""
    metadata = api.get(kinds.JOB, job)["metadata"]
    api.change(kinds.JOB, job, metadata=metadata | {"finalizers": [STUCK]})


def place(api: FakeCluster, pod: str, **status: Any) -> None:
    """Let a pod run on a cluster node that has not reported its end."""
    item = api.get(kinds.POD, pod)
    spec = item["spec"] | {"nodeName": "worker-1"}
    live = item["status"]
    api.change(kinds.POD, pod, spec=spec, status=live | status)


@pytest.fixture
def pod(api: FakeCluster, send: Submitter) -> str:
    """A pod of a running task."""
    send(TASK)
    name = api.start(JOB)
    place(api, name)
    return name


def test_stop_job_with_finalizer_stops_its_pods_and_names_it(
    run: Run, api: FakeCluster, pod: str
) -> None:
    hold(api)
    code, out, err = run("stop", "train")
    assert (code, out) == (3, "")
    assert f"task/{ID} (train): Job {JOB} waits for finalizer {STUCK}" in err
    assert "hint: its controller, or a cluster admin, has to remove the finalizer" in err
    assert f"pods {pod}" not in api.names()
    assert f"jobs {JOB}" in api.names()


def test_stop_again_after_finalizer_is_removed_deletes_all(
    run: Run, api: FakeCluster, pod: str
) -> None:
    hold(api)
    assert run("stop", "train")[0] == 3
    assert run("stop", "train", "--wait=false")[:2] == (0, f"task/{ID} (train) is being deleted\n")
    metadata = api.get(kinds.JOB, JOB)["metadata"]
    api.change(kinds.JOB, JOB, metadata=metadata | {"finalizers": []})
    assert api.names() == []


def test_stop_pod_in_grace_period_says_how_long_it_may_take(
    run: Run, api: FakeCluster, pod: str
) -> None:
    api.stays[pod] = 7200  # in minutes, as the first seconds pass while it is told
    code, _, err = run("stop", "train")
    assert code == 3
    assert "node-0 is stopping: up to 119m more (grace period)" in err or "up to 120m more" in err
    assert "hint: wait until then; `kubectl get pod train-" in err


def test_stop_pod_on_lost_cluster_node_names_it(run: Run, api: FakeCluster, pod: str) -> None:
    place(api, pod, conditions=SILENT)
    api.stays[pod] = 30
    code, _, err = run("stop", "train")
    assert code == 3
    assert "node-0 is on cluster node worker-1, which does not respond" in err
    assert "ask a cluster admin to repair cluster node worker-1, or to delete it" in err


def test_stop_without_wait_says_that_it_is_being_deleted(
    run: Run, api: FakeCluster, pod: str
) -> None:
    api.stays[pod] = 600
    api.requests.clear()
    code, out, err = run("stop", "train", "--wait=false")
    assert (code, out) == (0, f"task/{ID} (train) is being deleted\n")
    assert err == "1 task is being deleted; `kubectl sky list` shows what still exists\n"
    assert "stopped" not in out + err
    for command in (("list",), ("status", ID), ("doctor", ID)):
        assert "node-0 is stopping until" in " ".join(run(*command)[1].split()), command
    api.end(pod)
    assert api.names() == []


def test_stop_json_of_what_remains_is_deleting(run: Run, api: FakeCluster, pod: str) -> None:
    hold(api)
    code, out, _ = run("stop", "train", "-o", "json")
    document = json.loads(out)
    assert (code, document["status"], document["task_ids"]) == (3, "deleting", [ID])
    assert document["remaining"] == [f"task/{ID} (train): Job {JOB} waits for finalizer {STUCK}"]


def test_stop_interrupted_while_it_waits_says_that_the_deletion_goes_on(
    run: Run, api: FakeCluster, pod: str
) -> None:
    api.stays[pod] = 600
    api.before(f"delete jobs {JOB}", lambda: api.before("list pods", interrupt))
    code, out, err = run("stop", "train")
    assert (code, out) == (130, "")
    assert "interrupted; the deletion goes on in the cluster" in err


def test_stop_several_tasks_waits_for_them_together(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    for number in range(3):
        send(TASK, task_id=f"many000{number}")
        api.start(f"train-many000{number}")
    hold(api, "train-many0001")
    api.before("delete jobs train-many0000", api.requests.clear)
    code, out, err = run("stop", "--all", "--yes")
    assert code == 3
    assert sorted(out.split()[::3]) == ["task/many0000", "task/many0002"]
    assert "Job train-many0001 waits for finalizer" in err
    assert api.count("list pods") == api.count("list jobs") <= 4


def test_stop_pods_of_a_new_task_with_the_id_do_not_count(
    run: Run, api: FakeCluster, send: Submitter, pod: str
) -> None:
    def submit_again() -> None:
        send(TASK)
        api.start(JOB)

    api.after(f"delete jobs {JOB}", submit_again)
    assert run("stop", "train")[0] == 0


def test_stop_pods_that_cannot_be_listed_is_an_error(run: Run, api: FakeCluster, pod: str) -> None:
    api.after(f"delete jobs {JOB}", lambda: api.forbidden.add("list pods"))
    code, out, err = run("stop", "train")
    assert (code, out) == (3, "")
    assert "error: the deletion has begun, and whether it is complete is not known: " in err


def test_stop_program_that_is_killed_when_the_wait_ends_is_waited_for(
    api: FakeCluster, run: Run, pod: str
) -> None:
    """The default grace period is as long as the wait."""
    api.stays[pod] = 1
    api.before("list pods", lambda: api.end(pod), 5)
    assert run("stop", "train")[:2] == (0, f"task/{ID} (train) stopped\n")


def test_python_stop_of_what_remains_raises(
    api: FakeCluster, pod: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    hold(api)
    with pytest.raises(ClusterError, match=f"waits for finalizer {STUCK}"):
        Client().stop(ID)
    (task,) = Client().stop(ID, wait=False)
    assert task.deletion.since


def test_rerun_of_task_that_remains_warns_and_submits(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    assert run("submit", "task.yaml", "-d", "--id", ID)[0] == 0
    api.start(JOB)
    hold(api)
    code, _, err = run("rerun", "-d")
    assert code == 0
    assert f"warning: still being deleted: task/{ID} (train): Job {JOB} waits for" in err


def test_wait_for_delete_ends_when_the_pods_are_gone(run: Run, api: FakeCluster, pod: str) -> None:
    api.stays[pod] = 600
    api.after("watch jobs", lambda: api.remove(kinds.JOB, JOB))
    code, out, err = run("wait", ID, "--for=delete", "--timeout", "1s")
    assert (code, out) == (1, "")
    assert "gave up waiting: still being deleted" in err


def test_wait_for_task_that_is_stopped_does_not_call_its_kill_a_failure(
    run: Run, api: FakeCluster, pod: str
) -> None:
    api.stays[pod] = 600
    run("stop", "train", "--wait=false")
    api.finish(JOB, 137)
    assert "running (deleting" in run("list")[1]
    api.after("watch jobs", lambda: api.end(pod))
    code, _, err = run("wait", ID)
    assert (code, "failed" in err) == (4, False)
    assert f"task {ID} (train) was stopped: its Jobs have been deleted" in err


def test_doctor_of_pod_on_lost_cluster_node_does_not_advise_what_is_set(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nresources: {job_recovery: {max_restarts_on_errors: 3}}\nrun: train\n")
    name = api.start(JOB)
    taint = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    place(api, name, conditions=[*SILENT, taint])
    api.stays[name] = 30
    api.remove(kinds.POD, name)
    _, out, _ = run("doctor", ID)
    assert "ask a cluster admin to repair cluster node worker-1" in " ".join(out.split())
    assert "job_recovery" not in out and "submit the task again" not in out
    assert "cluster node worker-1 does not respond" in run("list")[1]
