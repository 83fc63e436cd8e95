"""A task without `run` stays up; the tasks that others wait for end after setup."""

import signal
import subprocess
from pathlib import Path

import pytest

from kubectl_sky import names
from kubectl_sky.plan import interactive
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads.decide import decide
from tests.actions.test_taskfile import FACTS, drafted, plans


def test_task_without_run_stays_up_and_says_so(tmp_path: Path) -> None:
    found = drafted("setup: pip install x\nnum_nodes: 2\n", tmp_path)
    (plan,) = plans(found)
    assert plan.scripts["run.sh"].endswith("exec sleep 2147483647\n")
    assert plan.scripts["setup.sh"] == "pip install x"
    assert plan.annotations[names.INTERACTIVE] == "true"
    notes = decide(found.entries, FACTS, found.settings).notes
    assert "the task has no run: its nodes stay up until it is stopped" in notes


def test_task_with_run_is_not_interactive(tmp_path: Path) -> None:
    (plan,) = plans(drafted("run: x\n", tmp_path))
    assert names.INTERACTIVE not in plan.annotations
    assert plan.scripts["run.sh"] == "x"


def test_task_with_resources_only_is_accepted_as_in_skypilot(tmp_path: Path) -> None:
    (plan,) = plans(drafted("resources: {cpus: 1}\n", tmp_path))
    assert plan.annotations[names.INTERACTIVE] == "true"


@pytest.mark.parametrize(
    ("text", "flags"),
    [("setup: a\n---\nrun: b\n", {}), ("setup: a\n", {"array": "0-2"})],
    ids=["pipeline", "array"],
)
def test_task_that_others_wait_for_ends_after_setup(
    tmp_path: Path, text: str, flags: dict[str, str]
) -> None:
    plan = plans(drafted(text, tmp_path, **flags))[0]
    assert plan.scripts["run.sh"] == ":\n"
    assert names.INTERACTIVE not in plan.annotations


def test_stay_script_prints_the_line_that_clients_wait_for_and_ends_at_sigterm() -> None:
    script = interactive.keep_running(Task()).run
    with subprocess.Popen(["sh", "-c", script or ""], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().rstrip() == interactive.READY
        process.terminate()
        assert process.wait(5) == -signal.SIGTERM
