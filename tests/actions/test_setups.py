"""`status` and the timeline of tasks in setup, over a cluster in memory."""

import json
from collections.abc import Iterator

import pytest

from kubectl_sky.observe import pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, pending, setups
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds
from tests import fake_cluster
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: train\nnum_nodes: 2\nsetup: pip install x\nrun: x\n"
BEGINS = b"kubectl-sky: setup begins\n"
ENDS = b"kubectl-sky: setup has ended after 9 seconds, run begins\n"
JOBS = [f"train-{ID}-node-{rank}" for rank in range(2)]


def schedule(api: FakeCluster, pod: str) -> None:
    condition = {"type": "PodScheduled", "status": "True"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = api.get(kinds.POD, pod)["status"]
    api.change(kinds.POD, pod, status=status | {"conditions": [condition]})


@pytest.fixture
def pods(api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two nodes that run: the first one its program, the other its setup."""
    monkeypatch.setattr(fake_cluster, "_now", lambda: "2026-01-01T00:00:00Z")
    send(TASK)
    pods = [api.start(job) for job in JOBS]
    for pod in pods:
        schedule(api, pod)
    api.log(pods[0], BEGINS + b"pip\n" + ENDS + b"step 1\n" + BEGINS)
    api.log(pods[1], b"bashrc\n" + BEGINS + b"pip\n")
    api.requests.clear()
    return pods


def count_logs(api: FakeCluster) -> int:
    return api.count("get pods/log")


def read_nodes(run: Run) -> list[dict[str, str]]:
    code, out, err = run("status", ID, "-o", "json")
    assert code == 0, err
    return list(json.loads(out)["metadata"]["nodes"])


def read_phases(run: Run) -> list[str]:
    """Return the phases of the second node: with `…` if they go on."""
    code, out, err = run("status", ID, "--timeline", "-o", "json")
    assert code == 0, err
    (task,) = json.loads(out)["tasks"]
    phases = task["nodes"][1]["phases"]
    return [phase["phase"] + ("" if phase["end"] else "…") for phase in phases]


def test_status_says_which_node_is_in_setup_by_a_log_request_for_each(
    run: Run, api: FakeCluster, pods: list[str]
) -> None:
    first, second = read_nodes(run)
    assert count_logs(api) == 2
    assert "setup_since" not in first
    assert (second["state"], second["setup_since"]) == ("running", "2026-01-01T00:00:00Z")
    code, out, _ = run("status", ID)
    (row,) = (line for line in out.splitlines() if JOBS[1] in line)
    assert (code, " setup " in row) == (0, True)


def test_status_of_several_tasks_says_that_they_are_in_setup(
    run: Run, api: FakeCluster, send: Submitter, pods: list[str]
) -> None:
    send("name: other\nsetup: x\nrun: x\n", task_id="wxyz2345")
    api.log(api.start("other-wxyz2345"), BEGINS)
    code, out, err = run("status", "train", "other", "-o", "json")
    assert code == 0, err
    nodes = [node for task in json.loads(out)["tasks"] for node in task["metadata"]["nodes"]]
    assert ["setup_since" in node for node in nodes] == [False, True, True]


PIPELINE = "name: chain\n---\nname: a\nsetup: x\nrun: x\n---\nname: b\nrun: x\n"


@pytest.fixture
def first_stage(api: FakeCluster, send: Submitter) -> str:
    """The pod of a stage in setup, of pipeline `chain`."""
    send(PIPELINE, task_id="wxyz2345")
    (job,) = (name.split()[1] for name in api.names() if name.startswith("jobs a-"))
    pod = api.start(job)
    api.log(pod, BEGINS)
    return pod


def test_status_of_pipeline_says_which_task_is_in_setup(
    run: Run, send: Submitter, first_stage: str
) -> None:
    send("name: other\nrun: x\n")
    for references in (["chain"], ["chain", "other"]):
        code, out, err = run("status", *references)
        assert code == 0, err
        assert "running (setup " in out

    tasks = json.loads(run("status", "chain", "-o", "json")[1])["tasks"]
    assert ["setup_since" in task["metadata"]["nodes"][0] for task in tasks] == [True, False]


def test_watch_of_pipeline_tells_that_a_task_is_in_setup_until_it_ends(
    api: FakeCluster, first_stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setups, "_INTERVAL", 0.0)
    session = api.session()
    scope = Scope("default", None)
    (pipeline,) = pipelines.pipelines(find.list_tasks(session, scope))
    updates = filter(None, pending.watch_pipeline(session, scope, pipeline))
    assert next(updates).tasks[0].nodes[0].setup_since
    api.log(first_stage, ENDS)
    assert not next(updates).tasks[0].nodes[0].setup_since


def test_timeline_has_setup_that_goes_on_then_run(
    run: Run, api: FakeCluster, pods: list[str]
) -> None:
    assert read_phases(run)[-1] == "setup…"
    api.log(pods[1], ENDS)
    assert read_phases(run)[-1] == "run…", "both took less than a second"


def test_timeline_of_node_that_failed_in_setup_has_no_run(
    run: Run, api: FakeCluster, pods: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_cluster, "_now", lambda: "2026-01-01T00:00:09Z")
    api.finish(JOBS[1], 3, message="setup failed with exit code 3")
    schedule(api, pods[1])
    assert read_phases(run)[-1] == "setup"


def test_list_and_tasks_without_running_setup_read_no_logs(
    run: Run, api: FakeCluster, send: Submitter, pods: list[str]
) -> None:
    assert run("config", "set", "silent_after", "0")[0] == run("list")[0] == 0
    send("name: plain\nrun: x\n", task_id="wxyz2345")
    api.log(api.start("plain-wxyz2345"), BEGINS)
    assert run("status", "plain", "--timeline")[0] == run("status", "plain")[0] == 0
    for job in JOBS:
        api.finish(job)
    assert run("status", ID, "--timeline")[0] == run("status", ID)[0] == 0
    assert count_logs(api) == 0


def test_status_and_timeline_without_right_to_logs_say_nothing_of_setup(
    run: Run, api: FakeCluster, pods: list[str]
) -> None:
    for number in range(1, 5):
        api.before("get pods/log", lambda: 403, nth=number)
    assert not any("setup_since" in node for node in read_nodes(run))
    assert read_phases(run)[-1] == "run…"
    assert count_logs(api) == 4


def watch(api: FakeCluster) -> Iterator[TaskStatus | None]:
    session = api.session()
    task = find.get_task(session, Scope("default", None), ID)
    return pending.watch_task(session, task)


def find_setups(updates: Iterator[TaskStatus | None]) -> list[bool]:
    """Return which nodes are in setup by the next update."""
    update = next(filter(None, updates))
    return [bool(node.setup_since) for node in update.nodes]


def test_watch_reads_logs_again_until_no_node_is_in_setup(
    api: FakeCluster, pods: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setups, "_INTERVAL", 0.0)
    updates = watch(api)
    assert find_setups(updates) == [False, True]
    assert next(updates) is None
    api.log(pods[1], ENDS)
    assert find_setups(updates) == [False, False]

    before = count_logs(api)
    assert next(updates) is None
    api.change(kinds.POD, pods[0], metadata=api.get(kinds.POD, pods[0])["metadata"])
    assert find_setups(updates) == [False, False]
    assert count_logs(api) == before


def test_watch_keeps_what_logs_have_told_until_the_interval_is_over(
    api: FakeCluster, pods: list[str]
) -> None:
    updates = watch(api)
    assert find_setups(updates) == [False, True]
    api.log(pods[1], ENDS)
    schedule(api, pods[1])
    assert find_setups(updates) == [False, True]
    assert count_logs(api) == 2


def test_watch_reads_a_log_again_after_an_error(
    api: FakeCluster, pods: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setups, "_INTERVAL", 0.0)
    for number in range(1, 3):
        api.before("get pods/log", lambda: 400, nth=number)
    updates = watch(api)
    assert find_setups(updates) == [False, False]
    assert find_setups(updates) == [False, True]


def test_watch_reads_the_log_of_a_container_that_is_restarted_in_place(
    api: FakeCluster, pods: list[str]
) -> None:
    api.log(pods[1], ENDS)
    updates = watch(api)
    assert find_setups(updates) == [False, False]

    api.rotate(pods[1])
    api.log(pods[1], BEGINS)
    status = api.get(kinds.POD, pods[1])["status"]
    status["containerStatuses"][0]["state"]["running"]["startedAt"] = "2026-01-01T00:00:09Z"
    api.change(kinds.POD, pods[1], status=status)
    assert find_setups(updates) == [False, True]
    assert count_logs(api) == 3
