"""Every command with -o, in every format, over a cluster in memory."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import yaml

from kubectl_sky.cli import main
from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.stacks import fold, read
from kubectl_sky.tasks import stacks
from kubectl_sky.words import kinds, names
from kubectl_sky_server.install import action as install
from kubectl_sky_server.install.model import Flags, controllers_install
from tests import fake_cluster
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.test_documents import check

TASK = "name: train\nresources: {ports: 80}\nrun: echo hello\n"
SERVICE = "name: web\nservice: {replicas: 2}\nresources: {ports: 80}\nrun: serve\n"
VOLUME = "name: data\ntype: k8s-pvc\nsize: 1Gi\n"
QUEUE = kinds.LOCAL_QUEUE
PODS = kinds.POD_METRICS
FAIR = {"apiVersion": kinds.PRIORITY_CLASS.api_version, "kind": kinds.PRIORITY_CLASS.kind}
# The arguments of each command, and its exit code.
COMMANDS: dict[str, tuple[str, int]] = {
    "auth whoami": ("", 0),
    "compare": (f"{ID} {ID}", 0),
    "config view": ("", 0),
    "controllers status": ("", 0),
    "dev up": ("--id devdevde", 0),
    "doctor": (ID, 0),
    "gpus": ("", 0),
    "list": ("", 0),
    "local status": ("", 3),
    "logs": (ID, 4),
    "queues fairshare": ("", 0),
    "queues list": ("", 0),
    "queues status": ("gold", 0),
    "render": ("task.yaml", 0),
    "rerun": ("", 0),
    "run": ("--id runrun22 -- true", 0),
    "serve down": ("web", 0),
    "serve status": ("web", 0),
    "serve up": ("service.yaml --detach", 0),
    "serve update": ("service.yaml --detach", 0),
    "status": (ID, 0),
    "stacks": (ID, 0),
    "stop": (ID, 0),
    "submit": (f"task.yaml --id {ID}", 0),
    "top": (ID, 0),
    "usage": ("", 0),
    "users add": ("alice -n default", 0),
    "users list": ("", 0),
    "users remove": ("alice --yes", 0),
    "users show": ("alice", 0),
    "validate": ("task.yaml", 0),
    "version": ("--client", 0),
    "volumes apply": ("volume.yaml", 0),
    "volumes create": ("notes 1Gi", 0),
    "volumes list": ("", 0),
    "volumes status": ("data", 0),
    "wait": (ID, 4),
}


def with_formats() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each command that has -o, and its formats."""

    def walk(name: str, command: click.Command) -> Iterator[tuple[str, tuple[str, ...]]]:
        context = click.Context(command)
        for option in command.params:
            if option.name == "form":
                yield name, option.type.formats  # type: ignore[attr-defined]
        if isinstance(command, click.Group):
            for word in command.list_commands(context):
                child = command.get_command(context, word)
                assert child
                yield from walk(f"{name} {word}".strip(), child)

    yield from walk("", main.sky)


FORMATS = dict(with_formats())


def prepare(api: FakeCluster, folder: Path) -> None:
    """Create a failed task that listens on a port, its metrics, and a queue."""
    api.kinds |= {QUEUE, PODS, kinds.NAMESPACE, kinds.ROLE, kinds.ROLE_BINDING}
    api.kinds |= {kinds.SERVICE_ACCOUNT}
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    api.kinds.add(kinds.PRIORITY_CLASS)
    key = "storageclass.kubernetes.io/is-default-class"
    metadata: dict[str, object] = {"name": "fast", "annotations": {key: "true"}}
    api.put({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata})
    Submitter(api, folder)(TASK)
    pod = api.start(f"train-{ID}")
    api.log(pod, b"the end\n")
    api.finish(f"train-{ID}", 3)
    usage = {"containers": [{"name": "main", "usage": {"cpu": "1", "memory": "1Gi"}}]}
    metadata = {"name": pod, "labels": {"task-id": ID}}
    api.put({"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, **usage})
    api.put({"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": "gold"}})

    (deployment,) = (
        item.object
        for item in install.controllers(controllers_install(Flags("default"), ("tasks",)))
        if item.object["kind"] == "Deployment"
    )
    api.put(deployment)
    labels = {"kubectl-sky/fair-share": "listed"}
    metadata = {"name": "high", "labels": labels}
    api.put({**FAIR, "metadata": metadata, "value": 5})


@pytest.fixture
def run(
    api: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """Run a command in a cluster of its own, and return its stdout."""
    monkeypatch.setattr(fake_cluster, "_now", lambda: "2026-01-01T00:00:00Z")
    monkeypatch.setattr(names, "new_id", lambda: "vvvv2345")
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    dump = fold(ID, {0: read("@process sleep 5\n@source proc\nsleeping\n@unread it\n")})
    monkeypatch.setattr(stacks, "dump", lambda session, task: dump)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "volume.yaml").write_text(VOLUME)
    (tmp_path / "service.yaml").write_text(SERVICE)

    def run(command: str, form: str) -> str:
        api = FakeCluster()
        prepare(api, tmp_path)
        monkeypatch.setattr(Session, "connect", api.session)
        arguments, expected = COMMANDS[command]
        if command.startswith("volumes") and command != "volumes create":
            assert main.main(["volumes", "apply", "volume.yaml"]) == 0
        if command == "rerun":
            assert main.main(["submit", "task.yaml", "--detach"]) == 0
        if command.startswith("users"):
            assert main.main(["users", "add", "alice", "-n", "default", "--tasks", "1"]) == 0
        if command in ("serve update", "serve status", "serve down"):
            assert main.main(["serve", "up", "service.yaml", "--detach"]) == 0
        capsys.readouterr()
        code = main.main([*command.split(), "-o", form, *arguments.split()])
        out, err = capsys.readouterr()
        assert code == expected, (command, form, err)
        assert "internal error" not in err
        # Objects are created in parallel: which one gets which number differs.
        return re.sub(r"(uid-|resourceVersion\W+)[0-9]+", r"\g<1>0", out)

    return run


def test_formats_are_tested_for_every_command() -> None:
    # They run a program in a pod: tests/e2e/test_kept_logs.py and test_results.py.
    apart = {"volumes logs", "volumes ls", "volumes du"}
    assert set(FORMATS) == set(COMMANDS) | apart


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"logs"}))
def test_command_output_matches_format(run: Callable[..., str], command: str) -> None:
    values = {
        "jsonpath=…": "jsonpath={.none}",
        "custom-columns=…": "custom-columns=KIND:.kind,NONE:.none",
    }
    forms = [form for form in FORMATS[command] if form != "task"]  # of a client dry run
    texts = {form: run(command, values.get(form, form)) for form in forms}
    data = json.loads(texts["json"])
    if data.get("kind") != "List":  # of Kubernetes objects
        check(data)
    documents = list(yaml.safe_load_all(texts["yaml"]))
    for document in (data, *documents):
        document.pop("since", None)  # of usage: it goes on between two calls
    assert documents == (data["items"] if command.endswith("render") else [data])
    assert texts.get("jsonpath=…", "").strip() == ""

    header, *rows = texts.get("custom-columns=…", "KIND   NONE\n").splitlines()
    assert re.fullmatch("KIND +NONE", header)
    assert all(row.endswith("   <none>") for row in rows)

    kind = "" if command == "auth whoami" else r"\w+/"
    assert re.fullmatch(rf"{kind}[\w-]+\n", texts.get("name", "task/x\n"))
    assert re.match(r"[A-Z]+  ", texts.get("wide", "ID  "))


def test_logs_print_line_in_every_format(run: Callable[..., str]) -> None:
    assert FORMATS["logs"] == ("text", "raw", "json")
    for form in FORMATS["logs"][:2]:
        assert run("logs", form) == "the end\n"
    line = json.loads(run("logs", "json"))
    assert (line["text"], line["rank"]) == ("the end", 0)
