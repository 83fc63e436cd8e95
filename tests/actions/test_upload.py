"""Uploads to pods on a cluster in memory; the exec channel is a test function."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from kubectl_sky.cluster.exec import Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    Interrupted,
    NotFound,
    TaskFailed,
    Unreachable,
    UserError,
)
from kubectl_sky.plan import local_files
from kubectl_sky.submitting import uploader
from kubectl_sky.sync.delivery import Outcome
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter, lose
from tests.builders import ID
from tests.fake_cluster import FakeCluster, interrupt

JOB = f"train-{ID}"
NOT_READY = Outcome(75)
BROKEN_OFF = Outcome(74)


class Channel:
    """Replaces `delivery.send`: records uploads and returns the next outcome."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.sizes: list[int] = []
        self.outcomes: list[Outcome | Callable[[], object]] = []
        self.outcome_of: Callable[[str], Outcome] = lambda pod: Outcome()

    def __call__(
        self, session: Session, program: Program, blocks: Iterator[bytes], stop: Event
    ) -> Outcome:
        self.pods.append(program.pod)
        self.sizes.append(sum(map(len, blocks)))
        outcome = self.outcomes.pop(0) if self.outcomes else self.outcome_of(program.pod)
        result = outcome() if callable(outcome) else outcome
        return result if isinstance(result, Outcome) else Outcome()


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Channel:
    channel = Channel()
    monkeypatch.setattr("kubectl_sky.sync.delivery.send", channel)
    monkeypatch.setattr(local_files, "MAX_TOTAL_BYTES", 0)  # no file fits into a ConfigMap
    return channel


@pytest.fixture
def task(tmp_path: Path) -> str:
    (tmp_path / "data.txt").write_text("some data")
    return f"name: train\nrun: cat /data.txt\nfile_mounts: {{/data.txt: {tmp_path}/data.txt}}\n"


def test_upload_finishes_before_follow_starts(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    def unpacked() -> None:
        assert not api.count("watch jobs")
        api.log(f"{JOB}-0", b"some data\n")
        api.finish(JOB)

    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [unpacked]
    ui = send(task, follow=True)
    assert channel.pods == [f"{JOB}-0"]
    assert channel.sizes[0] > 0
    assert ui.lines == ["some data"]


def test_upload_detached_submit_waits_for_all_nodes(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    jobs = [f"{JOB}-node-0", f"{JOB}-node-1"]
    send.ui.then = lambda: api.start(jobs[1])
    channel.outcomes = [lambda: api.start(jobs[0])]
    send(task + "num_nodes: 2\n")
    assert channel.pods == [f"{jobs[1]}-0", f"{jobs[0]}-0"]


def test_upload_waiting_for_other_nodes_sends_heartbeats(
    api: FakeCluster, send: Submitter, channel: Channel, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [f"{JOB}-node-0", f"{JOB}-node-1"]
    monkeypatch.setattr(uploader, "_MAX_PARALLEL", 1)
    monkeypatch.setattr(uploader, "_HEARTBEAT_INTERVAL", 0)
    send.ui.then = lambda: [api.start(job) for job in jobs]
    heartbeat = Event()

    def upload(session: Session, program: Program, blocks: Iterator[bytes], _: Event) -> Outcome:
        if program.command[1] == "-c":
            assert "/client" in program.command[2]
            heartbeats.append(program.pod)
            heartbeat.set()
        elif not heartbeats:
            assert heartbeat.wait(60), "no heartbeat to the other node"
        return Outcome()

    heartbeats: list[str] = []
    monkeypatch.setattr("kubectl_sky.sync.delivery.send", upload)
    send(task + "num_nodes: 2\n")
    assert f"{jobs[1]}-0" in heartbeats


def test_upload_to_restarted_pod_is_repeated(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    def crash() -> None:
        api.finish(JOB, 1, final=False)
        api.start(JOB)

    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [crash, lambda: api.finish(JOB)]
    recovery = "resources: {job_recovery: {max_restarts_on_errors: 2}}\n"
    send(task + recovery, follow=True)
    assert channel.pods == [f"{JOB}-0", f"{JOB}-1"]


def test_upload_to_later_stage_starts_with_its_pod(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    def started(index: int) -> None:
        plan = send.ui.results[0].decision.plans[index]
        api.start(plan.name)

    def finished(index: int) -> None:
        api.finish(send.ui.results[0].decision.plans[index].name)

    send.ui.then = lambda: started(0)
    channel.outcomes = [lambda: finished(0), lambda: finished(1)]
    api.after("patch jobs", lambda: started(1))
    send(f"name: both\n---\n{task}---\n{task.replace('train', 'test')}", follow=True)
    assert [pod.partition("-")[0] for pod in channel.pods] == ["train", "test"]


@pytest.mark.parametrize("outcome", [NOT_READY, BROKEN_OFF, Outcome(error=Unreachable("lost"))])
def test_upload_broken_off_is_retried(
    api: FakeCluster, send: Submitter, channel: Channel, task: str, outcome: Outcome
) -> None:
    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [outcome, outcome]
    send(task)
    assert channel.pods == [f"{JOB}-0"] * 3


def test_upload_node_finished_without_files_fails_submit(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    def crash() -> Outcome:
        api.finish(JOB, 1)
        return NOT_READY

    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [crash]
    with pytest.raises(TaskFailed, match=f"task {ID}: a node finished without its files"):
        send(task)
    assert f"jobs {JOB}" in api.names()  # for `status` and `logs`


def test_upload_unpack_error_is_noted_and_not_retried(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    def full() -> Outcome:
        api.finish(JOB, 1)
        return Outcome(1, "No space left on device")

    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [full]
    with pytest.raises(TaskFailed):
        send(task, follow=True)
    [note] = [note for note in send.ui.noted if "could not unpack" in note]
    assert note.endswith("data.txt: No space left on device")
    assert channel.pods == [f"{JOB}-0"]


def test_upload_without_right_to_exec_deletes_task(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [Outcome(error=Forbidden("may not create pods/exec"))]
    with pytest.raises(Forbidden, match="is being deleted because its nodes lack files"):
        send(task)
    assert api.names() == []


def test_upload_interrupted_deletes_task(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [interrupt]
    with pytest.raises(Interrupted, match="is being deleted because its nodes lack files"):
        send(task)
    assert api.names() == []


def test_upload_deleted_task_is_error(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    def stopped() -> Outcome:
        api.remove(kinds.JOB, JOB)
        return Outcome(error=NotFound("pod not found"))

    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [stopped]
    with pytest.raises(ClusterError, match="was deleted before its files were uploaded"):
        send(task)


def test_upload_to_later_stage_detached_is_refused(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    with pytest.raises(UserError, match="submit must keep running"):
        send(f"name: both\n---\n{task}---\n{task.replace('train', 'test')}")
    assert api.writes == []


def test_upload_same_id_twice_skips_finished_uploads(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    send.ui.then = lambda: api.start(f"{JOB}-node-0") and api.start(f"{JOB}-node-1")
    send(task + "num_nodes: 2\n")
    api.finish(f"{JOB}-node-0")
    send.ui.then = lambda: None
    send(task + "num_nodes: 2\n")
    assert channel.pods[2:] == [f"{JOB}-node-1-0"]


@pytest.fixture
def two(tmp_path: Path, task: str, run: Run) -> tuple[str, str]:
    """A file with an upload, and another one."""
    (tmp_path / "train.yaml").write_text(task)
    (tmp_path / "other.yaml").write_text("name: other\nrun: 'true'\n")
    return "train.yaml", "other.yaml"


def start_nodes(api: FakeCluster) -> None:
    """Let the nodes of tasks `train` start as soon as their Jobs exist."""

    def start() -> None:
        for job in jobs(api, "train"):
            if f"pods {job}-0" not in api.names():
                api.start(job)

    for number in (1, 2):
        api.after("create jobs", start, number)


def jobs(api: FakeCluster, name: str) -> list[str]:
    """Return the Jobs of the task with this name."""
    return [text.split()[1] for text in api.names() if text.startswith(f"jobs {name}-")]


def test_upload_of_first_file_completes_if_cluster_refuses_second(
    api: FakeCluster, channel: Channel, run: Run, two: tuple[str, str]
) -> None:
    start_nodes(api)
    api.before("create jobs", lambda: 403, nth=2)
    code, out, err = run("submit", "--detach", *two)
    assert code == 3
    assert re.findall(r"submitted: (\w+),", out) == ["train"]
    assert channel.pods == [f"{jobs(api, 'train')[0]}-0"]
    assert "warning: other.yaml was not submitted: " in err
    assert "error: other.yaml was not submitted: " in err.splitlines()[-1]
    assert jobs(api, "other") == []


def test_upload_failure_of_first_file_leaves_second_complete(
    api: FakeCluster, channel: Channel, run: Run, two: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "second.yaml").write_text((tmp_path / "train.yaml").read_text())
    start_nodes(api)
    channel.outcomes = [Outcome(error=Forbidden("may not create pods/exec"))]
    code, _, err = run("submit", "--detach", "train.yaml", "second.yaml")
    assert code == 3 and "is being deleted because its nodes lack files" in err
    assert len(channel.pods) == 2
    assert len(jobs(api, "train")) == 1


def test_submit_second_file_refused_follows_first_to_its_end(
    api: FakeCluster, channel: Channel, run: Run, two: tuple[str, str]
) -> None:
    def finish() -> None:
        api.log(f"{jobs(api, 'train')[0]}-0", b"trained\n")
        api.finish(jobs(api, "train")[0])

    start_nodes(api)
    api.before("create jobs", lambda: 403, nth=2)
    channel.outcomes = [finish]
    code, out, err = run("submit", *two)
    assert code == 3
    assert "train | trained" in out.splitlines()
    assert "error: other.yaml was not submitted: " in err.splitlines()[-1]


def test_submit_interrupted_at_second_file_says_how_first_gets_its_files(
    api: FakeCluster, channel: Channel, run: Run, two: tuple[str, str]
) -> None:
    api.before("create jobs", interrupt, nth=2)
    code, out, err = run("submit", "--detach", *two)
    task_id = out.split()[0].removeprefix("task/")
    assert code == 130
    assert f"to upload the remaining files, run: kubectl sky submit FILE --id {task_id}" in err
    assert jobs(api, "other") == []


RECOVERY = "resources: {job_recovery: {max_restarts_on_errors: 2}}\n"


@pytest.mark.parametrize("begins", ["create jobs", "watch jobs"])
def test_upload_outage_longer_than_retries_keeps_task(
    api: FakeCluster, send: Submitter, channel: Channel, task: str, begins: str
) -> None:
    def outage() -> None:
        lose(api, "list jobs")
        api.after("list jobs", lambda: api.finish(JOB), 10)

    send.ui.then = lambda: api.start(JOB)
    api.after(begins, outage)
    send(task + RECOVERY, follow=True)
    assert f"jobs {JOB}" in api.names()
    assert api.count("delete jobs") == 0


@pytest.mark.parametrize("outcome", [interrupt, Outcome(error=Forbidden("may not exec"))])
def test_upload_same_id_twice_interrupted_or_refused_keeps_task(
    api: FakeCluster,
    send: Submitter,
    channel: Channel,
    task: str,
    outcome: Outcome | Callable[[], object],
) -> None:
    """The second command only uploads what a node lacks that has restarted."""
    send.ui.then = lambda: api.start(JOB)
    send(task + RECOVERY)
    api.finish(JOB, 1, final=False)
    channel.outcomes = [outcome]
    with pytest.raises((Interrupted, Forbidden)) as caught:
        send(task + RECOVERY)
    again = f"to upload the remaining files, run: kubectl sky submit FILE --id {ID}"
    assert f"task {ID} goes on; {again}" in str(caught.value)
    assert f"jobs {JOB}" in api.names()


def test_upload_failed_and_not_deleted_names_both_reasons(
    api: FakeCluster, send: Submitter, channel: Channel, task: str
) -> None:
    send.ui.then = lambda: api.start(JOB)
    channel.outcomes = [Outcome(error=Forbidden("may not create pods/exec"))]
    api.forbidden.add("delete jobs")
    with pytest.raises(Forbidden) as caught:
        send(task)
    assert caught.value.what.startswith("may not create pods/exec; ")
    assert f"task {ID} could not be deleted (forbidden: " in caught.value.what
