"""The tasks controller on a cluster in memory: its rights, its retention, and its retries."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.controllers import tasks
from kubectl_sky.controllers.tasks import Sweeper, TasksController
from kubectl_sky.install.model import RULES
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter, shorten_waits
from tests.actions.test_leadership import CHAIN, NODES, run, suspended
from tests.builders import ID
from tests.fake_cluster import FakeCluster


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    shorten_waits(monkeypatch)
    monkeypatch.setattr(tasks, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "_FIRST_RETRY_SECONDS", 0.01)
    return FakeCluster()


@pytest.fixture
def send(api: FakeCluster, tmp_path: Path) -> Submitter:
    return Submitter(api, tmp_path)


def jobs(api: FakeCluster) -> list[dict[str, Any]]:
    listed = [text.split()[1] for text in api.names() if text.startswith("jobs ")]
    return [api.get(kinds.JOB, name) for name in listed]


def control(api: FakeCluster, rounds: int = 1) -> None:
    """Give a new controller the current Jobs, as kopf does at its start and after changes."""

    async def feed() -> None:
        controller = TasksController(api.session())
        for _ in range(rounds):
            for job in jobs(api):
                await controller.changed({"type": "MODIFIED", "object": job})  # type: ignore[typeddict-item]
            await asyncio.sleep(0.2)

    asyncio.run(feed())


def test_controller_forgets_task_that_was_deleted_while_its_watch_was_lost(
    api: FakeCluster, send: Submitter
) -> None:
    send(CHAIN)
    run(api, 0)
    known = jobs(api)
    for job in known:
        api.remove(kinds.JOB, job["metadata"]["name"])

    async def feed() -> int:
        controller = TasksController(api.session())
        for job in known:
            await controller.changed({"type": "MODIFIED", "object": job})  # type: ignore[typeddict-item]
        await asyncio.sleep(0.2)
        return len(controller._index)

    assert asyncio.run(feed()) == 0


def used_rights(api: FakeCluster) -> set[tuple[str, str]]:
    pairs = [text.split()[:2] for text in api.requests if "/" not in text]
    return {(verb, resource) for verb, resource in pairs}


def test_controller_started_late_resumes_stage_and_cancels_after_failure(
    api: FakeCluster, send: Submitter
) -> None:
    send(CHAIN)
    run(api, 0)
    control(api, rounds=3)
    assert suspended(api) == [False, False, True]
    run(api, 1, exit_code=3)
    control(api)
    assert len(jobs(api)) == 2


def test_controller_with_forbidden_patch_retries_with_backoff(
    api: FakeCluster, send: Submitter, caplog: pytest.LogCaptureFixture
) -> None:
    send(CHAIN)
    run(api, 0)
    api.forbidden.add("patch jobs")
    control(api)
    assert 2 <= api.count("patch jobs") <= 6
    assert "pipeline default" in caplog.text


def test_controller_rights_are_those_that_it_uses(api: FakeCluster, send: Submitter) -> None:
    """Each granted right is used, and no other is needed, with only these rights."""
    send(CHAIN)
    run(api, 0)
    granted = {
        (verb, resource)
        for rule in RULES["tasks"]
        for resource in rule.resources
        for verb in rule.verbs
    }
    every = {
        (verb, kind.plural) for kind in api.kinds for verb in ("list", "get", "delete", "patch")
    }
    api.forbidden |= {f"{verb} {resource}" for verb, resource in every - granted}
    api.requests.clear()
    control(api)
    run(api, 1, exit_code=3)
    control(api)
    assert len(jobs(api)) == 2
    api.forbidden.clear()
    for job in jobs(api):
        api.remove(kinds.JOB, job["metadata"]["name"])
    requests = list(api.requests)
    send(NODES)
    api.remove(kinds.JOB, f"wide-{ID}-node-1")
    api.requests[:] = requests
    control(api)
    kinds_of_jobs = {"jobsets", "mpijobs", "appwrappers"}
    needed = {right for right in granted if right[0] != "watch" and right[1] not in kinds_of_jobs}
    refused = {("list", name) for name in ("configmaps", "secrets", "persistentvolumeclaims")}
    assert needed <= used_rights(api) <= needed | refused | {("list", "podgroups")}


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
    Sweeper(api.session(), "default", timedelta(hours=hours)).sweep()
    assert len(jobs(api)) == left


def test_sweeper_keeps_stages_of_unfinished_pipeline(api: FakeCluster, send: Submitter) -> None:
    send(CHAIN)
    run(api, 0)
    Sweeper(api.session(), "default", timedelta(days=-1)).sweep()
    assert len(jobs(api)) == 3


def test_sweeper_goes_on_after_internal_error(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    async def sweep_twice() -> None:
        swept = asyncio.Event()
        loop = asyncio.get_running_loop()

        def sweep(self: Sweeper) -> None:
            calls.append(1)
            if len(calls) == 2:
                loop.call_soon_threadsafe(swept.set)
            raise IndexError("a bug")

        monkeypatch.setattr(Sweeper, "sweep", sweep)
        monkeypatch.setattr(tasks, "_SWEEP_SECONDS", 0.01)
        sweeper = Sweeper(api.session(), "default", timedelta(hours=1))
        await sweeper.start()
        await asyncio.wait_for(swept.wait(), 5)
        await sweeper.stop()

    asyncio.run(sweep_twice())
    assert len(calls) >= 2
