"""TASK..., globs, -l and --all mean the same tasks for every command."""

import json
import re

import pytest

from tests.actions.conftest import Run, Submitter
from tests.fake_cluster import FakeCluster

IDS = {"train-a": "bcdf2345", "train-b": "bcdg6789", "eval": "qwrt2345"}
VISION = "resources: {labels: {team: vision}}\n"


@pytest.fixture(autouse=True)
def tasks(send: Submitter, api: FakeCluster) -> None:
    """Two tasks train-a and train-b, of which the second has failed, and eval of a team."""
    for name, task_id in IDS.items():
        labels = VISION if name == "eval" else ""
        exit_code = 3 if name == "train-b" else 0
        send(f"name: {name}\nrun: x\n{labels}", task_id=task_id)
        pod = api.start(f"{name}-{task_id}")
        api.log(pod, f"line of {name}\n".encode())
        api.finish(f"{name}-{task_id}", exit_code)


CHOICES = {
    "train-a eval": {"train-a", "eval"},
    "train-*": {"train-a", "train-b"},
    "train-[b-z] eval": {"train-b", "eval"},
    "bcd*": {"train-a", "train-b"},
    "task/bcdf2345 train-*": {"train-a", "train-b"},
    "-l team=vision": {"eval"},
    "-l team!=vision": {"train-a", "train-b"},
    "--all": set(IDS),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("command", ["status", "wait", "doctor", "logs", "stop --dry-run"])
def test_choice_of_tasks_is_the_same_for_all_commands(run: Run, command: str, choice: str) -> None:
    code, out, err = run(*command.split(), *choice.split())
    names = CHOICES[choice]
    is_outcome = command in ("wait", "logs")
    assert code == (4 if is_outcome and "train-b" in names else 0), err
    assert {name for name in IDS if re.search(rf"\b{name}\b", out)} == names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("status train-x*", 'task "train-x*" not found in namespace "default"'),
        ("logs eval --all", "TASK, -l and --all exclude each other"),
        ("wait -l a=b --all", "TASK, -l and --all exclude each other"),
        ("exec train-* -- ls", '"train-*" matches 2 tasks: '),
        ("status --all --watch", "--watch shows one task"),
        ("doctor --all --share", "--share is about one task"),
    ],
)
def test_choice_that_cannot_be_is_refused(run: Run, words: str, message: str) -> None:
    code, _, err = run(*words.split())
    assert code == 2
    assert message in err


@pytest.mark.parametrize("command", ["status", "wait", "doctor", "logs", "stop"])
def test_labels_that_no_task_has_are_no_error(run: Run, command: str) -> None:
    code, out, err = run(command, "-l", "team=nobody")
    assert (code, out) == (0, "")
    assert err.startswith(("No tasks found", "Stopped 0 tasks"))


def test_logs_of_several_tasks_have_their_names(run: Run, send: Submitter) -> None:
    code, out, err = run("logs", "train-*")
    assert sorted(out.splitlines()) == ["train-a | line of train-a", "train-b | line of train-b"]
    assert (code, err.startswith("error: task bcdg6789 (train-b) failed")) == (4, True)


def test_logs_of_tasks_of_one_name_have_their_ids(
    run: Run, send: Submitter, api: FakeCluster
) -> None:
    send("name: eval\nrun: x\n", task_id="zzzz2345")
    api.log(api.start("eval-zzzz2345"), b"again\n")
    out = run("logs", "zzzz2345", "qwrt2345")[1]
    assert sorted(out.splitlines()) == ["eval qwrt2345 | line of eval", "eval zzzz2345 | again"]


def test_wait_for_all_names_those_that_failed(run: Run) -> None:
    code, out, err = run("wait", "--all")
    assert (code, len(out.splitlines())) == (4, 3)
    assert err.splitlines()[-1] == "1 of 3 tasks failed: bcdg6789 (train-b)"


def test_several_tasks_are_one_list_for_programs(run: Run) -> None:
    statuses = json.loads(run("status", "train-*", "-o", "json")[1])
    assert statuses["kind"] == "TaskList"
    assert {task["name"] for task in statuses["tasks"]} == {"train-a", "train-b"}
    verdicts = json.loads(run("doctor", "train-*", "-o", "json")[1])
    assert verdicts["kind"] == "DiagnosisList"
    assert {it["name"]: it["status"] for it in verdicts["diagnoses"]} == {
        "train-a": "completed",
        "train-b": "failed",
    }


def test_stop_of_a_glob_asks_and_names_the_tasks(run: Run, api: FakeCluster) -> None:
    code, _, err = run("stop", "train-*")
    assert code == 2
    assert "task/bcdf2345 (train-a)" in err
    assert "Stop 2 tasks? (stdin is not a terminal)" in err
    assert run("stop", "train-*", "--yes")[0] == 0
    assert [name for name in api.names() if name.startswith("jobs ")] == ["jobs eval-qwrt2345"]


def test_stop_dry_run_stops_nothing(run: Run, api: FakeCluster) -> None:
    code, out, _ = run("stop", "eval", "--dry-run")
    assert (code, out) == (0, "task/qwrt2345 (eval) stopped (dry run)\n")
    assert api.writes[-1].startswith("delete") is False


def test_pipeline_is_one_target_if_all_its_tasks_match(run: Run, send: Submitter) -> None:
    send(f"name: chain\n---\nname: a\nrun: x\n{VISION}---\nname: b\nrun: x\n", task_id="chain001")
    assert run("status", "chai*", "-o", "name")[1] == "pipeline/chain001\n"
    whole = run("status", "--all", "-o", "name")[1].splitlines()
    assert "pipeline/chain001" in whole
    some = run("status", "-l", "team=vision", "-o", "name")[1].splitlines()
    assert len(some) == 2
    assert "pipeline/chain001" not in some
