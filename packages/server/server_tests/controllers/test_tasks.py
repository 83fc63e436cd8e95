"""The tasks controller on a cluster in memory: its rights, its retention, and its retries."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.words import age, kinds
from kubectl_sky_server.controllers import tasks
from kubectl_sky_server.controllers.tasks import Sweeper, TasksController
from kubectl_sky_server.install.model import RIGHTS
from server_tests.controllers.conftest import running
from tests.actions.conftest import Submitter
from tests.actions.test_kept_pods import deadline, end_main
from tests.actions.test_lead import CHAIN, NODES, STAGES, run, suspended
from tests.builders import ID, make_silent
from tests.fake_cluster import FakeCluster
from tests.polling import eventually
from tests.reading import read_job

LOST_AFTER = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_SETTLE_SECONDS", 0.0)


def jobs(api: FakeCluster) -> list[dict[str, Any]]:
    listed = [text.split()[1] for text in api.names() if text.startswith("jobs ")]
    return [api.get(kinds.JOB, name) for name in listed]


def controlled(api: FakeCluster) -> AbstractContextManager[TasksController]:
    return running(api, TasksController(api.session(), LOST_AFTER))


def lose(api: FakeCluster, job: str) -> str:
    """Start a node, and let the kubelet of its marked pod not respond for an hour."""
    pod = api.start(job)
    since = age.timestamp(datetime.now(UTC) - timedelta(hours=1))
    api.put(make_silent(api.get(kinds.POD, pod), "n3", since))
    api.stays[pod] = 0
    api.remove(kinds.POD, pod)
    return pod


def control(api: FakeCluster, done: Callable[[], object]) -> None:
    """Run a new controller until something is done."""
    with controlled(api):
        eventually(done)


def test_controller_forgets_task_that_was_deleted_while_its_watch_was_refused(
    api: FakeCluster, send: Submitter
) -> None:
    send(CHAIN)
    run(api, 0)
    known = jobs(api)
    for job in known:
        api.remove(kinds.JOB, job["metadata"]["name"])
    controller = TasksController(api.session(), None)
    (*_, work) = (
        controller.changed(WatchEvent(Change.ADDED, kinds.JOB, read_job(job))) for job in known
    )
    assert work and controller.process(work[0]) is None
    assert len(controller._index) == 0


def used_rights(api: FakeCluster) -> set[tuple[str, str]]:
    pairs = [text.split()[:2] for text in api.requests if "/" not in text]
    return {(verb, resource) for verb, resource in pairs}


def test_controller_started_late_resumes_stage_and_cancels_after_failure(
    api: FakeCluster, send: Submitter
) -> None:
    send(CHAIN)
    run(api, 0)
    control(api, lambda: suspended(api) == [False, False, True])
    run(api, 1, exit_code=3)
    control(api, lambda: len(jobs(api)) == 2)


def test_controller_replaces_pod_of_lost_cluster_node(
    api: FakeCluster, send: Submitter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    send(NODES)
    pod = lose(api, f"wide-{ID}-node-0")
    control(api, lambda: f"pods {pod}" not in api.names())
    step = f"task/{ID} (wide): node-0: its pod on cluster node n3, which does not respond, was"
    assert caplog.text.count(step) == 1


def test_controller_with_forbidden_patch_retries_with_backoff(
    api: FakeCluster, send: Submitter, caplog: pytest.LogCaptureFixture
) -> None:
    send(CHAIN)
    run(api, 0)
    api.forbidden.add("patch jobs")
    control(api, lambda: api.count("patch jobs") > 2)
    assert api.count("patch jobs") < 7
    assert "pipeline default" in caplog.text


def test_controller_rights_are_those_that_it_uses(api: FakeCluster, send: Submitter) -> None:
    """Each granted right is used, and no other is needed, with only these rights."""
    send(CHAIN)
    run(api, 0)
    granted = {
        (verb, resource)
        for rule in RIGHTS["tasks"].served
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    every = {
        (verb, kind.plural) for kind in api.kinds for verb in ("list", "get", "delete", "patch")
    }
    api.forbidden |= {f"{verb} {resource}" for verb, resource in every - granted}
    api.requests.clear()
    control(api, lambda: suspended(api) == [False, False, True])
    end_main(api, STAGES[1], 3)
    control(api, lambda: len(jobs(api)) == 2)
    api.forbidden.clear()
    for job in jobs(api):
        api.remove(kinds.JOB, job["metadata"]["name"])
    requests = list(api.requests)
    send(NODES)
    api.remove(kinds.JOB, f"wide-{ID}-node-1")
    api.requests[:] = requests
    kinds_of_jobs = {"jobsets", "mpijobs", "appwrappers"}
    needed = {right for right in granted if right[1] not in kinds_of_jobs}
    lose(api, f"wide-{ID}-node-0")
    control(api, lambda: needed <= used_rights(api))

    refused = {("list", name) for name in ("configmaps", "secrets", "persistentvolumeclaims")}
    assert used_rights(api) <= needed | refused | {("list", "podgroups")}


def test_controller_reads_a_task_only_when_something_is_due(
    api: FakeCluster, send: Submitter
) -> None:
    """Plain tasks need no request; a stage to resume needs two lists, and a patch."""
    for number in range(10):
        send(NODES.replace("num_nodes: 3", "num_nodes: 1"), task_id=f"plain00{number}")
        api.start(f"wide-plain00{number}")
        api.finish(f"wide-plain00{number}")
    send(CHAIN)
    api.requests.clear()
    run(api, 0)
    control(api, lambda: suspended(api)[:3] == [False, False, True])
    on_tasks = {"list jobs", "list pods", "patch jobs"}
    sent = [" ".join(text.split()[:2]) for text in api.requests]
    assert sorted(text for text in sent if text in on_tasks) == sorted(on_tasks)
    assert sent.count("watch jobs") == 1


@pytest.mark.parametrize("clock", [-1.5, 0, 1.5])
@pytest.mark.parametrize(("hours", "left"), [(1, 1), (-1, 0)])
def test_sweeper_deletes_finished_task_after_retention_by_clock_of_server(
    api: FakeCluster, send: Submitter, hours: int, left: int, clock: float
) -> None:
    api.ahead = timedelta(hours=clock)
    send(NODES.replace("num_nodes: 3", "num_nodes: 1"))
    name = f"wide-{ID}"
    api.start(name)
    api.finish(name)
    Sweeper(api.session(), "default", timedelta(hours=hours)).process("")
    assert len(jobs(api)) == left


def test_sweeper_keeps_stages_of_unfinished_pipeline(api: FakeCluster, send: Submitter) -> None:
    send(CHAIN)
    run(api, 0)
    Sweeper(api.session(), "default", timedelta(days=-1)).process("")
    assert len(jobs(api)) == 3


def test_controller_ends_kept_pod_of_plain_task(api: FakeCluster, send: Submitter) -> None:
    send(NODES.replace("num_nodes: 3", "num_nodes: 1"))
    pod = end_main(api, f"wide-{ID}")
    control(api, lambda: deadline(api, pod) == 1)
    assert api.get(kinds.JOB, f"wide-{ID}")["spec"]["backoffLimit"] == 0


def test_controller_resumes_stage_after_kept_one(api: FakeCluster, send: Submitter) -> None:
    send(CHAIN)
    pod = end_main(api, STAGES[0])
    control(api, lambda: suspended(api) == [False, False, True])
    assert deadline(api, pod) == 1
