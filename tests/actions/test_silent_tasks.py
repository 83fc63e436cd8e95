"""`list` and `doctor`: tasks of several nodes that print nothing, in memory."""

from concurrent.futures import wait
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.flight_recorder import Call, Group, Recording
from kubectl_sky.observe.hangs import Hang
from kubectl_sky.observe.stacks import Dump
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, hangs, ranks, stacks
from kubectl_sky.words import kinds
from tests import fake_cluster
from tests.actions.conftest import Run, Submitter
from tests.builders import ID, make_silent
from tests.fake_cluster import FakeCluster

METRICS = kinds.POD_METRICS


@pytest.fixture
def pods(api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three nodes that run since long, and printed last at their start; rank 1 uses no CPU."""
    monkeypatch.setattr(fake_cluster, "_now", lambda: "2026-01-01T00:00:00Z")
    monkeypatch.setattr(ranks, "_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(stacks, "read_dumps", lambda *_, **__: {})  # the fake runs no programs
    api.kinds |= {METRICS}
    send("name: train\nnum_nodes: 3\nrun: x\n")
    pods = [api.start(f"train-{ID}-node-{rank}") for rank in range(3)]
    for rank, pod in enumerate(pods):
        api.log(pod, b"step\n")
        usage = [{"name": "main", "usage": {"cpu": "1m" if rank == 1 else "2"}}]
        labels = {"task-id": ID, "skypilot-task": "true"}
        item = {"apiVersion": METRICS.api_version, "kind": METRICS.kind, "containers": usage}
        api.put(item | {"metadata": {"name": pod, "labels": labels}})
    api.requests.clear()
    return pods


def logs(api: FakeCluster) -> list[str]:
    return [request for request in api.requests if request.startswith("get pods/log ")]


def test_list_compares_the_nodes_of_a_task_whose_least_busy_one_is_silent(
    run: Run, api: FakeCluster, pods: list[str]
) -> None:
    code, out, err = run("list")
    assert code == 0, err
    assert "no rank has printed anything for " in out
    assert f"kubectl sky doctor {ID}" in out
    assert pods[1] in "".join(logs(api)[:2]), "it uses the least CPU"
    assert len(logs(api)) == 2 + len(pods), "all are compared where the first is silent"


def test_list_reads_no_logs_if_setting_is_zero(
    run: Run, api: FakeCluster, pods: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path / "settings"))
    assert run("config", "set", "silent_after", "0")[0] == 0
    assert "REASON" not in run("list")[1]
    assert not logs(api)


def test_list_reads_no_logs_of_tasks_that_started_lately(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nnum_nodes: 2\nrun: x\n")
    for rank in range(2):
        api.log(api.start(f"train-{ID}-node-{rank}"), b"step\n")
    assert "REASON" not in run("list")[1]
    assert not logs(api)


def test_doctor_reads_every_log_and_the_use_of_cpus(
    run: Run, api: FakeCluster, pods: list[str]
) -> None:
    code, out, err = run("doctor", ID, "-o", "jsonpath={.ranks[*].cpus}")
    assert (code, out) == (0, "2.0 0.001 2.0"), err
    assert len(logs(api)) == 3
    assert "no rank has printed anything for " in run("doctor", ID)[1]


@pytest.mark.parametrize(("age", "count"), [(60, 1), (1 << 40, 0)])
def test_doctor_adds_dumps_of_flight_recorders_from_the_time_of_the_silence(
    run: Run, pods: list[str], monkeypatch: pytest.MonkeyPatch, age: int, count: int
) -> None:
    call = Call(7, "all_reduce", age=1 << 41)
    groups = (Group("0", "default_pg", "7", call, call), Group("0", "default_pg", "7"))
    looks: list[bool] = []

    def read(*_: object, with_recorder: bool = True, **__: object) -> dict[int, Dump]:
        looks.append(with_recorder)
        recordings = [Recording(rank, age, (groups[rank == 2],)) for rank in range(3)]
        return {rank: Dump((), recordings=(it,)) for rank, it in enumerate(recordings)}

    monkeypatch.setattr(stacks, "read_dumps", read)
    code, out, err = run("doctor", ID)
    assert code == 0, err
    assert out.count("; rank 2 has not begun it") == count
    assert looks == [False, True], "it is the second look that counts"


def test_client_that_waits_notes_once_which_node_hangs(
    api: FakeCluster, pods: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangs, "_LOOK_SECONDS", 0.0)
    session = api.session()
    (task,) = find.list_tasks(session, find.Scope("default", None))
    notes: list[str] = []
    report = hangs.HangReporter(session, notes.append, lambda: timedelta(minutes=10))
    look_twice(report, task)
    assert len(notes) == 1
    assert notes[0].startswith("train: no rank has printed anything for ")

    look_twice(hangs.HangReporter(session, notes.append, timedelta), task)
    assert len(notes) == 1, "the setting is 0"


def look_twice(report: hangs.HangReporter, task: TaskStatus) -> None:
    """Let a reporter look at a task twice; it looks in a thread."""
    for _ in range(2):
        report(task)
        assert report._look
        wait([report._look], timeout=20)
        report(task)


class Killed(list[str]):
    """Of which nodes a client has killed the programs."""

    def __call__(self, session: Session, task: TaskStatus, hang: Hang) -> list[str]:
        self.append(f"{task.name} {hang.ranks}")
        return ["the program of node-1 was killed, because it hung"]


@pytest.mark.parametrize(
    ("said", "seen", "expected"),
    [
        (("fail 10m", 11), (True, True), ["train (1,)"]),
        (("restart 10m", 11), (True, True), ["train (1,)"]),
        (("fail 10m", 9), (True, True), []),
        (("fail 10m", 11), (False, True), []),
        (("fail 10m", 11), (True, False), []),
        (("dump 10m", 11), (True, True), []),
        (("", 99), (True, True), []),
    ],
    ids=["fail", "restart", "early", "no leader", "computes", "dump", "none"],
)
def test_client_that_leads_kills_the_program_that_hangs_once(
    api: FakeCluster,
    pods: list[str],
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[str, int],
    seen: tuple[bool, bool],
    expected: list[str],
) -> None:
    on_hang, silence = said
    leads, is_certain = seen
    killed = Killed()
    monkeypatch.setattr(hangs, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(hangs, "stop_programs", killed)
    hang = Hang("rank 1 hangs", timedelta(minutes=silence), (1,), is_certain=is_certain)
    monkeypatch.setattr(hangs, "find_hang", lambda *_: hang)
    session = api.session()
    (task,) = find.list_tasks(session, find.Scope("default", None))
    task = replace(task, on_hang=on_hang)

    report = hangs.HangReporter(
        session, lambda _: None, lambda: timedelta(minutes=10), lambda: leads
    )
    look_twice(report, task)
    assert killed == expected


def test_py_spy_is_not_brought_from_a_machine_without_it(
    run: Run, pods: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, err = run("stacks", ID, "--bring-py-spy")
    assert code == 2
    assert "this machine has no py-spy" in err


def test_doctor_asks_for_no_log_of_cluster_node_that_does_not_respond(
    run: Run, api: FakeCluster, pods: list[str]
) -> None:
    api.put(make_silent(api.get(kinds.POD, pods[1]), "n2", "2026-01-01T00:00:00Z"))
    assert "its cluster node n2 does not respond" in run("doctor", ID)[1]
    assert len(logs(api)) == 2
