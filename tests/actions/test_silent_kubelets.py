"""One cluster node that does not respond: only its rank's lines wait, and its name is told."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from kubectl_sky.cluster import backoff
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.errors import RequestInfo
from kubectl_sky.cluster.exec import V5, Pipes, Program
from kubectl_sky.cluster.session import Outgoing, Query, Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.cluster.tail import LogSource, Tail
from kubectl_sky.errors import KubeletUnreachable, TaskFailed
from kubectl_sky.plan import local_files
from kubectl_sky.sync.delivery import Outcome
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.follow import follow_tasks
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.actions.test_upload import Channel
from tests.builders import ID, make_silent
from tests.fake_cluster import FakeCluster

TASK = "name: hello\nnum_nodes: 3\nrun: echo hello\n"
JOBS = [f"hello-{ID}-node-{rank}" for rank in range(3)]
SILENT = f"{JOBS[2]}-0"  # the pod on the cluster node n2
DOES_NOT_RESPOND = "its cluster node n2 does not respond"
WAITS = f"node-2: {DOES_NOT_RESPOND}; its log continues when it can be read"
INCOMPLETE = f"node-2: {DOES_NOT_RESPOND}; its log is incomplete"
ERROR = f"cluster node n2 of pod {SILENT} does not respond"
HINT = "`kubectl describe node n2` shows a cluster admin why"
_SUCCESS = {"status": "Success"}
LONG = 8  # requests that last longer than the limit of an API server


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(backoff, "_MAX_DELAY_SECONDS", 0.05)


def start(api: FakeCluster) -> None:
    for rank, job in enumerate(JOBS):
        api.log(api.start(job, f"n{rank}"), f"{rank} first\n".encode())


def start_with_silent_kubelet(api: FakeCluster) -> None:
    start(api)
    api.stop_kubelet("n2")


def finish(api: FakeCluster) -> None:
    for job in JOBS:
        api.finish(job)


def test_follow_with_a_silent_kubelet_ends_as_the_task(api: FakeCluster, send: Submitter) -> None:
    def go_on() -> None:
        api.log(f"{JOBS[0]}-0", b"0 last\n")
        api.log(f"{JOBS[1]}-0", b"1 last\n")
        finish(api)

    send.ui.then = partial(start_with_silent_kubelet, api)
    api.before(f"get pods/log {SILENT}", go_on, LONG)
    send(TASK, follow=True)
    assert sorted(send.ui.lines) == [
        "node-0 0 first", "node-0 0 last", "node-1 1 first", "node-1 1 last",
    ]  # fmt: skip
    assert [note for note in send.ui.noted if "n2" in note] == [WAITS, INCOMPLETE]
    assert "10.250.0.13" not in "".join(send.ui.noted)


def test_follow_kubelet_that_is_back_prints_every_line_once(
    api: FakeCluster, send: Submitter
) -> None:
    """Twice: each outage has a note."""

    def stop() -> None:
        api.stop_kubelet("n2")
        api.log(SILENT, b"2 in the outage\n")

    def go_on() -> None:
        api.start_kubelet("n2")
        api.log(SILENT, b"2 after\n")

    def stop_again() -> None:
        api.stop_kubelet("n2")
        api.before(f"get pods/log {SILENT}", end, LONG)

    def end() -> None:
        api.start_kubelet("n2")
        api.log(SILENT, b"2 last\n")
        finish(api)

    send.ui.then = partial(start, api)
    send.ui.on["node-2 2 first"] = stop
    send.ui.on["node-2 2 after"] = stop_again
    api.before(f"get pods/log {SILENT}", go_on, LONG)
    send(TASK, follow=True)
    assert [line for line in send.ui.lines if "node-2" in line] == [
        "node-2 2 first", "node-2 2 in the outage", "node-2 2 after", "node-2 2 last",
    ]  # fmt: skip
    assert [note for note in send.ui.noted if "n2" in note] == [WAITS, WAITS]


def test_follow_submit_with_a_silent_kubelet_stops_the_others_of_a_failed_node(
    api: FakeCluster, send: Submitter
) -> None:
    send.ui.then = partial(start_with_silent_kubelet, api)
    api.before(f"get pods/log {SILENT}", lambda: api.finish(JOBS[0], 1), LONG)
    for job in JOBS[1:]:
        api.after(f"patch jobs {job}", partial(api.finish, job, 143))
    with pytest.raises(TaskFailed, match="failed: node-0: exit code 1"):
        send(TASK, follow=True)
    assert api.count("patch jobs") == 2


def test_follow_several_tasks_names_the_task_of_a_silent_kubelet(
    api: FakeCluster, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    api.before(f"get pods/log {SILENT}", partial(finish, api), LONG)
    session = api.session()
    tasks = find.list_tasks(session, Scope("default", None))
    follow_tasks(session, tasks, LogRequest(LogOptions(follow=True)), send.ui)
    assert f"hello {WAITS}" in send.ui.noted


def test_log_of_a_silent_kubelet_ends_when_its_pod_is_deleted(
    api: FakeCluster, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    api.before(f"get pods/log {SILENT}", lambda: api.remove(kinds.POD, SILENT), LONG)
    source = LogSource("default", SILENT, "main")
    batches = list(Tail(api.session(), source, LogOptions(follow=True)).batches())
    assert [batch.note for batch in batches if batch.note] == [
        f"pod {SILENT}: {DOES_NOT_RESPOND}; its log continues when it can be read",
        f"pod {SILENT} was deleted",
    ]


def test_logs_of_a_silent_kubelet_are_missing_and_the_others_are_printed(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    code, out, err = run("logs", ID)
    assert code == 3
    assert out.splitlines() == ["node-0 | 0 first", "node-1 | 1 first"]
    assert err.splitlines()[-3:] == [INCOMPLETE, f"error: {ERROR}", f"hint: {HINT}"]


def test_logs_of_a_failed_task_with_a_silent_kubelet_exit_as_the_task(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    api.finish(JOBS[0], 1)
    code, _, err = run("logs", ID)
    assert (code, INCOMPLETE in err) == (4, True)


def test_silent_kubelet_is_no_outage_of_the_api_server(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    _, _, err = run("logs", ID)
    assert "waiting for the API server" not in err
    tries = api.count(f"get pods/log {SILENT}")
    assert tries == api.requests.count(f"get pods {SILENT}")  # none is repeated without a look


class _Socket:
    """The WebSocket of a program that has run: its output and its Status."""

    protocol = V5

    def __init__(self, output: bytes, status: object = _SUCCESS) -> None:
        self._messages = [b"\1" + output, b"\3" + json.dumps(status).encode()]

    def receive(self, *_: object) -> bytes | None:
        return self._messages.pop(0) if self._messages else None

    def send(self, data: bytes) -> None:
        """It reads nothing."""

    def close(self) -> None:
        """It has no connection."""

    def __enter__(self) -> "_Socket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def programs(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each program at once, where the kubelet responds."""

    def connect(session: Session, path: str, query: Query, protocols: Sequence[str]) -> _Socket:
        info = RequestInfo("GET", path, session.server)
        session.open(Outgoing(info, query, {}, streamed=True, repeatable=False))
        return _Socket(b"@process 1 python train.py\n@source py-spy\nloop (train.py:1)\n")

    monkeypatch.setattr("kubectl_sky.cluster.exec.connect", connect)


@pytest.mark.usefixtures("programs")
def test_exec_in_all_ranks_with_a_silent_kubelet_prints_the_others(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    code, out, err = run("exec", ID, "--all-ranks", "--", "hostname")
    assert code == 3
    assert {line.partition(" |")[0] for line in out.splitlines()} == {"node-0", "node-1"}
    assert err.splitlines() == [f"node-2: {ERROR}; {HINT}", "node-2: exit code 3"]


@pytest.mark.usefixtures("programs")
def test_exec_asks_no_kubelet_that_is_known_not_to_respond(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    """An API server that has accepted the WebSocket waits for it for ever."""
    send(TASK)
    start(api)
    api.put(make_silent(api.get(kinds.POD, SILENT), "n2", "2026-01-01T00:05:00Z"))
    code, out, err = run("exec", ID, "--all-ranks", "--", "hostname")
    assert code == 3
    assert {line.partition(" |")[0] for line in out.splitlines()} == {"node-0", "node-1"}
    assert err.splitlines() == [f"node-2: {ERROR}; {HINT}", "node-2: exit code 3"]


@pytest.mark.usefixtures("programs")
def test_stacks_with_a_silent_kubelet_has_those_of_the_others(
    api: FakeCluster, run: Run, send: Submitter
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    code, out, err = run("stacks", ID, "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert document["stacks"][0]["nodes"] == [0, 1]
    assert document["unread"] == {ERROR: [2]}


def test_exec_whose_status_is_about_the_kubelet_names_its_cluster_node(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that has accepted the WebSocket before it connects to the kubelet."""
    send(TASK)
    start(api)
    url = "https://10.250.0.13:10250/exec/default/x/main?command=true"
    failure = f'error sending request: Post "{url}": dial tcp 10.250.0.13:10250: i/o timeout'
    socket = _Socket(b"", {"status": "Failure", "message": f"Internal error occurred: {failure}"})
    monkeypatch.setattr("kubectl_sky.cluster.exec.connect", lambda *_: socket)
    program = Program("default", SILENT, "main", ["true"])
    with pytest.raises(KubeletUnreachable) as caught:
        executing.run(api.session(), program, Pipes())
    assert str(caught.value) == f"{ERROR}; {HINT}"


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("command", ["exec {id} --rank 2 -- true", "cp here {id}:/tmp --rank 2"])
def test_command_for_one_rank_with_a_silent_kubelet_names_its_cluster_node(
    api: FakeCluster, run: Run, send: Submitter, command: str
) -> None:
    send(TASK)
    start_with_silent_kubelet(api)
    Path("here").write_text("x")
    code, _, err = run(*command.format(id=ID).split())
    assert (code, err.splitlines()) == (3, [f"error: {ERROR}", f"hint: {HINT}"])


def test_upload_to_a_silent_kubelet_is_tried_while_the_others_get_their_files(
    api: FakeCluster, send: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lasts longer than an upload that breaks off is tried again."""
    channel = Channel()
    monkeypatch.setattr("kubectl_sky.sync.delivery.send", channel)
    monkeypatch.setattr(local_files, "MAX_TOTAL_BYTES", 0)
    monkeypatch.setattr("kubectl_sky.submitting.uploader._RETRY_FOR", 0)
    (tmp_path / "data.txt").write_text("some data")

    silent = KubeletUnreachable(ERROR, HINT, node="n2")
    outcomes = {SILENT: [Outcome(error=silent)] * 5}
    channel.outcome_of = lambda pod: outcomes[pod].pop() if outcomes.get(pod) else Outcome()
    send.ui.then = partial(start, api)
    send(TASK + f"file_mounts: {{/data.txt: {tmp_path}/data.txt}}\n")
    assert sorted(set(channel.pods)) == [f"{job}-0" for job in JOBS]
    assert channel.pods.count(SILENT) == 6
    source = f"{tmp_path}/data.txt"
    note = f"node-2: {DOES_NOT_RESPOND}; {source} is uploaded when it can be reached"
    assert [text for text in send.ui.noted if "n2" in text] == [note]
