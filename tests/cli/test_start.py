"""Modules that commands import at startup, because imports cost time."""

import builtins
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kubectl_sky import __main__ as start
from kubectl_sky.cli.main import run

HEAVY = {"kubernetes", "fastapi", "urllib3", "requests", "pydantic", "rich", "starlette", "uvicorn"}
TEMPLATES = {"jinja2", "yaml", "dotenv", "jsonschema"}
# Reading needs the readers of backends, not what plans and renders tasks or runs programs in nodes.
UNNEEDED = {
    "jinja2",
    "jsonschema",
    "kubectl_sky.plan.placement",
    "kubectl_sky.plan.resolve",
    "kubectl_sky.render",
    "kubectl_sky.spec.task",
    "kubectl_sky.spec.validate",
    "kubectl_sky.workloads.decide",
    "websockets",
}
ROOT = Path(__file__).parent.parent.parent
EXAMPLE = str(ROOT / "examples" / "05-multi-node.yaml")
SCRIPT = """
import sys
from kubectl_sky.cli.main import main

for line in sys.argv[1:]:
    assert main(line.split()) == 0
print(*sys.modules, file=sys.stderr)
"""
ON_CLUSTER = """
from kubectl_sky.cluster.session import Session
from tests.fake_cluster import FakeCluster

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train-bcdf2345",
        "labels": {
            "skypilot-task": "true",
            "task-id": "bcdf2345",
            "task-name": "train",
            "username": "alice",
            "node-idx": "0",
        },
    },
    "spec": {"template": {"metadata": {"labels": {"task-id": "bcdf2345"}}, "spec": {}}},
}
cluster = FakeCluster()
cluster.put(JOB)
cluster.start("train-bcdf2345")
cluster.finish("train-bcdf2345")
Session.connect = cluster.session
"""


def modules_after(script: str, lines: tuple[str, ...]) -> set[str]:
    """Run commands in a new process, and return the modules that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", script, *lines],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("lines", "unneeded"),
    [
        (("--help", "submit --help", "local up --help", "version"), HEAVY | TEMPLATES),
        (("--version", "list --help", "volumes --help"), HEAVY),
        (("auth logout", "local down"), HEAVY | {"jsonschema"}),
        ((f"validate {EXAMPLE}", f"render {EXAMPLE}"), HEAVY),
    ],
)
def test_offline_commands_import_only_what_they_need(
    lines: tuple[str, ...], unneeded: set[str]
) -> None:
    assert not unneeded.intersection(modules_after(SCRIPT, lines))


@pytest.mark.parametrize(
    "line", ["list", "status train", "logs train", "wait train", "clean", "stop train"]
)
def test_commands_on_existing_tasks_import_only_what_they_need(line: str) -> None:
    assert not UNNEEDED.intersection(modules_after(ON_CLUSTER + SCRIPT, (line,)))


def test_interrupted_import_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(name: str, *rest: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "__import__", interrupt)
    with pytest.raises(SystemExit) as ended:
        start.run()
    monkeypatch.undo()
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_exit_searches_no_cycles() -> None:
    gc.unfreeze()
    with pytest.raises(SystemExit):
        run(["--version"])
    assert gc.get_freeze_count()
    gc.unfreeze()
