"""Logs on a volume: those of deleted pods and tasks, and the list of what a volume keeps."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit, until_running
from tests.polling import eventually

TASK = """
name: kept
num_nodes: 2
resources: {image_id: "busybox:1.36"}
volumes: {/data: {name: logs, sub_path: team}}
config: {kubectl_sky: {logs: /data/runs}}
run: echo hello from $SKYPILOT_NODE_RANK
"""
KEEPER = """
name: keeper
resources: {image_id: "busybox:1.36"}
volumes: {/all: logs}
run: sleep 600
"""
FOLDER = "team/runs/kept-kepttask"


@pytest.fixture
def task(sky: Command) -> str:
    """A task of two nodes, which has ended."""
    created = sky("volumes", "create", "logs", "1Gi")
    assert created.returncode == 0, created.stderr
    done = sky("submit", "-", "--id", "kepttask", stdin=TASK)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines()[1:] if "kubectl-sky" not in line]
    assert sorted(lines) == ["node-0 | hello from 0", "node-1 | hello from 1"]
    return "kepttask"


def hello(text: str) -> list[str]:
    return [line for line in text.splitlines() if "hello" in line]


def test_logs_of_deleted_pod_and_task_are_read_on_volume_after_agreement(
    sky: Command, kubectl: Command, task: str
) -> None:
    pods = f"task-id={task},node-idx=1"
    assert kubectl("delete", "pod", "-l", pods).returncode == 0

    eventually(lambda: not kubectl.json("get", "pods", "-l", pods)["items"], 60)
    told = sky("logs", task)
    assert (told.returncode, hello(told.stdout)) == (0, ["node-0 | hello from 0"]), told.stderr
    assert re.search(rf'the log is on PVC "logs-\w+": {FOLDER}\n', told.stderr)
    assert "start one to open it? (stdin is not a terminal); confirm with --yes" in told.stderr

    read = sky("logs", task, "--yes")
    both = ["node-0 | hello from 0", "node-1 | hello from 1"]
    assert (read.returncode, hello(read.stdout)) == (0, both)
    assert sky("stop", task, "--yes").returncode == 0

    refused = sky("logs", task)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert FOLDER in refused.stderr

    gone = sky("logs", "kept", "--yes")
    assert (gone.returncode, hello(gone.stdout)) == (0, both), gone.stderr

    left = ("get", "jobs,configmaps", "-l", "skypilot-task=true")
    eventually(lambda: kubectl.json(*left)["items"] == [])  # after the grace period of the reader


def test_logs_on_volume_are_listed_and_read_in_a_running_pod(
    sky: Command, task: str, tmp_path: Path
) -> None:
    assert sky("stop", task, "--yes").returncode == 0
    submit(sky, KEEPER, "keeper01")
    until_running(sky, "keeper01")
    logs = sky.json("volumes", "logs", "logs")["logs"]
    assert [(log["task"], log["rank"], log["path"]) for log in logs] == [
        ("kept-kepttask", rank, f"{FOLDER}/node-{rank}.log") for rank in (0, 1)
    ]

    table = sky("volumes", "logs", "logs").stdout.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [
        ["kept-kepttask", "0"],
        ["kept-kepttask", "1"],
    ]

    printed = sky("volumes", "logs", "logs", "kept").stdout
    assert hello(printed) == ["node-0 | hello from 0", "node-1 | hello from 1"]

    one = sky("logs", "kept", "--rank", "1", "--tail", "2", "-o", "json")
    lines = [json.loads(line) for line in one.stdout.splitlines()]
    assert [(line["rank"], line["time"]) for line in lines] == [(1, ""), (1, "")]
    assert lines[0]["text"] == "hello from 1"
    assert sky("logs", "kept", "--output-dir", "out").returncode == 0
    assert hello((tmp_path / "out" / "kepttask-node-0.log").read_text()) == ["hello from 0"]

    unknown = sky("volumes", "logs", "logs", "other")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert 'volume "logs" has no log of task "other"' in unknown.stderr


NEVER_MET = """
num_nodes: 2
name: never
resources: {image_id: "busybox:1.36"}
volumes: {/data: logs}
config: {kubectl_sky: {logs: /data}}
envs: {KUBECTL_SKY_BARRIER_TIMEOUT: none}
run: echo never
"""


@pytest.mark.practice_only
def test_logs_of_task_that_never_wrote_to_volume_keep_its_outcome(
    sky: Command, kubectl: Command
) -> None:
    assert sky("volumes", "create", "logs", "1Gi").returncode == 0
    assert sky("submit", "-", "--id", "nevermet", stdin=NEVER_MET).returncode == 4
    assert kubectl("delete", "pod", "-l", "task-id=nevermet").returncode == 0
    done = sky("logs", "nevermet", "--yes")
    assert (done.returncode, done.stdout) == (4, "")
    assert 'no log of never-nevermet found in "." of PVC "logs-' in done.stderr
    assert sky("stop", "nevermet", "--yes").returncode == 0
    assert sky("logs", "nevermet", "--yes").returncode == 2
