"""The client on a cluster in memory: what it sends, returns and raises."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from msgspec import structs

from kubectl_sky import Client, PipelineStatus, State, Table, Task, TaskStatus
from kubectl_sky.api import logs
from kubectl_sky.cli import main
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    Forbidden,
    InUse,
    InvalidFiles,
    NameTaken,
    SkyError,
    TaskFailed,
    UnknownName,
    UserError,
)
from kubectl_sky.observe.logs import Origin
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds
from tests.fake_cluster import FakeCluster

ID = "bcdf2345"
JOB = f"hello-{ID}"
HELLO = Task(name="hello", run="echo hello").override(id=ID)
TWO = HELLO.override(num_nodes=2)
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"


def run(api: FakeCluster, exit_code: int = 0, text: bytes = b"one\ntwo\n") -> None:
    """Let the task run to its end."""
    api.log(api.start(JOB), text)
    api.finish(JOB, exit_code)


def test_submit_returns_handle_that_shows_task(api: FakeCluster, client: Client) -> None:
    submission = client.submit(HELLO)
    assert (submission.id, submission.task_ids, submission.unchanged) == (ID, (ID,), False)
    assert f"create jobs {JOB}" in api.writes
    status = submission.status()
    assert isinstance(status, TaskStatus)
    assert (status.name, status.state, status.user) == ("hello", State.PENDING, "alice")
    assert client.submit(HELLO).unchanged
    assert [task.id for task in client.list()] == [ID]


def test_invalid_task_sends_nothing(api: FakeCluster, client: Client) -> None:
    with pytest.raises(InvalidFiles) as caught:
        client.submit(Task.from_yaml("run: x\nnum_nodes: many\n"))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.path) == ("<task>", 2, "num_nodes")
    assert api.requests == []


@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_dry_run_returns_manifests(api: FakeCluster, client: Client, dry_run: str) -> None:
    task = Task(run="x", secrets={"TOKEN": "hunter2"})
    if dry_run == "client":
        manifests = client.submit(task, dry_run="client")
    else:
        manifests = client.submit(task, dry_run="server")
    assert {"Job", "Secret"} <= {item["kind"] for item in manifests.objects}
    assert "hunter2" not in repr(manifests)
    assert not [text for text in api.writes if "(dry run)" not in text]


def test_refused_submit_leaves_nothing(api: FakeCluster, client: Client) -> None:
    api.forbidden.add("create jobs")
    with pytest.raises(Forbidden) as caught:
        client.submit(HELLO)
    assert caught.value.message
    assert caught.value.exit_code == 3
    assert api.names() == []


def test_unknown_task_raises_with_hint(client: Client) -> None:
    with pytest.raises(UnknownName) as caught:
        client.status("nothing")
    assert caught.value.message.startswith('task "nothing" not found in namespace "default"')
    assert "kubectl sky list" in caught.value.hint


def test_list_shows_other_users_on_request(api: FakeCluster, client: Client) -> None:
    client.submit(HELLO)
    api.user = "bob"
    other = Client()
    assert other.list() == ()
    assert [task.user for task in replace(other, all_users=True).list()] == ["alice"]


def test_status_has_json_of_command_line(
    api: FakeCluster, client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    client.submit(HELLO)
    assert main.main(["status", ID, "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == client.status(ID).as_json()


def test_logs_of_failed_task_are_read_without_error(api: FakeCluster, client: Client) -> None:
    client.submit(HELLO)
    run(api, exit_code=3, text=b"one\nbad \xff\n")
    lines = list(client.logs(ID))
    assert [line.text for line in lines] == ["one", "bad \N{REPLACEMENT CHARACTER}"]
    assert (lines[0].task, lines[0].rank, lines[0].node) == (ID, 0, "node-0")
    assert lines[0].time.startswith("2026-01-01T")
    assert [str(line) for line in client.logs(ID, tail=1)] == [lines[1].text]


def test_logs_followed_raise_failure_after_last_line(api: FakeCluster, client: Client) -> None:
    submission = client.submit(HELLO)
    Thread(target=run, args=(api, 3)).start()
    lines: list[str] = []
    with pytest.raises(TaskFailed, match=r"exit code 3"):
        lines.extend(line.text for line in submission.logs())
    assert lines == ["one", "two"]


def readers() -> int:
    return sum(thread.name == "logs" for thread in threading.enumerate())


def test_closed_iterator_ends_its_thread(api: FakeCluster, client: Client) -> None:
    client.submit(HELLO)
    api.log(api.start(JOB), b"one\n")
    lines = client.logs(ID, follow=True)
    assert next(lines).text == "one"
    assert readers() == 1
    assert isinstance(lines, Iterator)
    lines.close()
    deadline = time.monotonic() + 60
    while readers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert readers() == 0


def test_slow_reader_slows_logs_down() -> None:
    shown: list[int] = []

    def read(ui: UI, stop: Event) -> None:
        for number in range(1000):
            ui.logs([(Origin(ID, 0, "node-0", "pod"), b"t %d" % number)], True)
            shown.append(number)

    lines = logs.LogLines(read)
    assert next(lines).text == "0"
    time.sleep(0.05)
    assert len(shown) < 30
    assert [line.text for line in lines] == [str(number) for number in range(1, 1000)]


def test_wait_raises_at_timeout_and_failure_of_task(api: FakeCluster, client: Client) -> None:
    submission = client.submit(HELLO)
    with pytest.raises(SkyError, match="gave up waiting") as late:
        submission.wait(timeout=0.01)
    assert not isinstance(late.value, TaskFailed)
    with pytest.raises(SkyError, match="has no rank 7"):
        list(client.logs(ID, ranks=[7]))
    run(api, exit_code=3)
    with pytest.raises(TaskFailed) as caught:
        client.wait(ID)
    assert f"task {ID} (hello) failed" in caught.value.message
    submission.stop()
    assert client.list() == ()


def test_wait_failed_task_text_of_error_keeps_hint_off_the_last_line(
    api: FakeCluster, client: Client
) -> None:
    client.submit(HELLO)
    run(api, exit_code=1, text=b"ModuleNotFoundError: No module named 'torch'\n")
    with pytest.raises(TaskFailed) as caught:
        client.wait(ID)
    last, hint = str(caught.value).splitlines()[-2:]
    assert last.strip() == "ModuleNotFoundError: No module named 'torch'"
    assert hint == f"hint: {caught.value.hint}"
    assert "install it in setup" in hint


def test_wait_resumes_stages_of_pipeline(api: FakeCluster, client: Client) -> None:
    submission = client.submit(Task.from_yaml(PIPELINE))
    assert len(submission.task_ids) == 2

    def suspended(name: str) -> bool:
        return bool(api.get(kinds.JOB, name)["spec"].get("suspend"))

    def controller() -> None:
        for name in (
            f"{word}-{task}" for word, task in zip(words, submission.task_ids, strict=True)
        ):
            while suspended(name):
                time.sleep(0.01)
            api.start(name)
            api.finish(name)

    words = ("one", "two")
    names = [text.split()[1] for text in api.names() if text.startswith("jobs ")]
    assert sorted(map(suspended, names)) == [False, True]
    Thread(target=controller).start()
    assert submission.wait(timeout=60).state is State.COMPLETED


def test_client_reads_kubeconfig_only_when_it_sends(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with Client(kubeconfig=missing):
        """It closes what it never opened."""
    with Client(kubeconfig=missing) as client, pytest.raises(SkyError, match="none"):
        client.list()


def test_volumes_are_created_listed_and_deleted(api: FakeCluster, client: Client) -> None:
    created = client.volumes.create("data", "10Gi", storage_class="", access_modes="RWX")
    assert (created.name, created.size, created.access_modes) == (
        "data",
        "10Gi",
        ("ReadWriteMany",),
    )
    assert [volume.id for volume in client.volumes.list()] == [created.id]
    with pytest.raises(NameTaken):
        client.volumes.create("data", "1Gi", storage_class="")

    pod = {"name": "user", "labels": {}}
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": created.claim}}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": {"volumes": [claim]}})
    with pytest.raises(InUse) as caught:
        client.volumes.delete("data")
    for text in ("", created.id[:2]):  # an empty variable is not the only volume
        with pytest.raises(UnknownName):
            client.volumes.delete(text, force=True)
    assert "force=True" in caught.value.hint
    assert client.volumes.delete("data", force=True).id == created.id
    assert client.volumes.list() == ()


def test_client_is_shared_by_threads(api: FakeCluster, client: Client) -> None:
    def submit(number: int) -> str:
        task = Task(name=f"t{number}", run="x")
        submission = client.submit(task)
        assert client.status(submission.id).name == f"t{number}"
        return submission.id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(submit, range(24)))
    assert len(ids) == 24
    assert {task.id for task in client.list()} == ids


def test_client_passes_arguments_to_connection(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Connection] = []

    def connect(connection: Connection) -> Session:
        connections.append(connection)
        return api.session()

    monkeypatch.setattr(Session, "connect", connect)
    client = Client(context="prod", namespace="team", token="hunter2", request_timeout=5)
    assert "hunter2" not in repr(client)
    client.list()
    (connection,) = connections
    assert (connection.context, connection.namespace) == ("prod", "team")
    assert (connection.token, connection.request_timeout) == ("hunter2", 5)


def test_local_files_are_sent(api: FakeCluster, client: Client, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    submission = client.submit(HELLO.override(workdir=str(tmp_path)))
    assert any(note.startswith("files: 1") for note in submission.notes)
    assert any(name.startswith("configmaps files-") for name in api.names())


def test_doctor_explains_task_and_stage_of_pipeline_and_checks_cluster(
    api: FakeCluster, client: Client
) -> None:
    client.submit(HELLO)
    run(api, 3, b"ModuleNotFoundError: No module named 'torch'\n")
    verdict = client.doctor(ID)
    assert "torch" in verdict.summary
    assert repr(verdict) == f"<Diagnosis {verdict.headline}>"
    assert repr(verdict.cause).endswith("next: install it in setup, or use an image that has it>")
    submission = client.submit(Task.from_yaml(PIPELINE))
    assert client.doctor(submission.id).task.id == submission.task_ids[0]
    assert client.doctor().namespace == "default"


def test_gpus_and_usage_return_what_the_command_line_prints(
    api: FakeCluster, client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    status = {"allocatable": {"nvidia.com/gpu": "8"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": labels}}
    api.put(node | {"status": status})
    client.submit(HELLO.override(gpus="A100:2"))
    assert main.main(["gpus", "-o", "json"]) == 0
    (row,) = json.loads(capfd.readouterr().out)["machines"]
    assert [item.as_json() for item in client.gpus()] == [row]
    assert main.main(["usage", "--by", "gpu", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert {**client.usage(by="gpu").as_json(), "since": document["since"]} == document


def test_exec_and_cp_run_in_the_node_of_the_rank(
    api: FakeCluster, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs: list[Program] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        programs.append(program)
        pipes.stdout(b"/work/a\xff")
        pipes.stderr(b"oops")
        reads_gpus = "nvidia-smi" in program.command and "tar" not in program.command
        return 3 if reads_gpus else 0

    monkeypatch.setattr(executing, "run", execute)
    client.submit(TWO)
    pods = [api.start(f"hello-{ID}-node-{rank}") for rank in range(2)]
    done = client.exec(ID, ["nvidia-smi", "-L"], rank=1)
    assert (done.args, done.returncode, done.stderr) == (["nvidia-smi", "-L"], 3, "oops")
    assert done.stdout == "/work/a\N{REPLACEMENT CHARACTER}"
    (tmp_path / "a").write_text("x")
    client.cp(str(tmp_path / "a"), f"{ID}:a", rank=1)
    assert {program.pod for program in programs} == {pods[1]}
    with pytest.raises(UserError, match="source or target must be in a task"):
        client.cp("a", "b")


def test_notebook_shows_lists_as_escaped_tables(api: FakeCluster, client: Client) -> None:
    client.submit(HELLO)
    status = replace_name(client.status(ID), "<script>")
    html = Table([status])._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert client.list()._repr_html_().startswith("<table><tr><th>id</th><th>name</th>")
    assert "<td>node-0</td><td>pending</td>" in Table(status.nodes)._repr_html_()
    assert client.volumes.list()._repr_html_() == "<p>none</p>"
    many = Table([status] * 201)._repr_html_()
    assert (many.count("<tr>"), "<p>and 1 more</p>" in many) == (201, True)


def replace_name(status: TaskStatus | PipelineStatus, name: str) -> TaskStatus:
    assert isinstance(status, TaskStatus)
    return structs.replace(status, name=name)


def test_exec_of_a_string_is_a_type_error(client: Client) -> None:
    with pytest.raises(TypeError, match=r"a list of words: \['echo', 'x'\]"):
        client.exec("hello", "echo x")


def test_check_and_usage_are_short_in_a_shell(client: Client) -> None:
    assert re.fullmatch(r"<ClusterCheck .*, namespace default: all rights>", repr(client.doctor()))
    assert re.fullmatch(r"<Usage since 20..-..-..: 0.0 GPU-hours>", repr(client.usage()))


def test_read_task_is_what_was_submitted_without_secrets(client: Client) -> None:
    client.submit(HELLO.override(env={"A": "1"}, secret={"TOKEN": "hunter2"}))
    task = client.read_task(ID)
    assert 'A: "1"' in task.yaml and "hunter2" not in task.yaml
    with pytest.raises(UnknownName):
        client.read_task("other")


def test_ports_have_addresses(client: Client) -> None:
    client.submit(HELLO.override(ports=["8080"]))
    (port,) = client.ports(ID)
    assert (port.port, port.address) == (8080, f"{JOB}-ports.default.svc:8080")
    client.submit(HELLO.override(id="bcdf2346"))
    with pytest.raises(UserError, match="has no Service"):
        client.ports("bcdf2346")


def test_services_are_created_updated_and_deleted(api: FakeCluster, client: Client) -> None:
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    task = Task(
        name="web", run="serve", resources={"ports": 8080}, service={"readiness_probe": "/"}
    )
    status = client.serve.up(task, replicas=2, wait=False)
    assert (status.name, status.replicas.wanted) == ("web", 2)
    assert client.serve.list()[0].endpoints == ("web.default.svc:8080",)
    assert "web.default.svc" in client.serve.list()._repr_html_()
    with pytest.raises(NameTaken, match="already exists"):
        client.serve.up(task, wait=False)

    assert client.serve.update(task, replicas=3, wait=False).replicas.wanted == 3
    assert list(client.serve.logs("web")) == []
    client.serve.down("web")
    for call in (client.serve.status, client.serve.logs, client.serve.down):
        with pytest.raises(UnknownName):
            call("web")
