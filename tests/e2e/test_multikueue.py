"""Tasks in a queue of MultiKueue: Kueue sends their Jobs from the manager to a worker cluster."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.multikueue import QUEUE, WORKER
from tests.cluster.target import Cluster
from tests.e2e.command import PROGRAM, Command, InProcess, home, submitted
from tests.polling import eventually

SIZE = "resources: {cpus: 0.1, memory: 0.1}\n"
COPIES = ("configmaps,secrets,services", "-l", "skypilot-task=true", "-o", "name")


@pytest.fixture
def kubectl(multikueue: Path, real_cluster: Cluster, tmp_path: Path) -> Command:
    """kubectl for the manager; `--context worker1` is the worker."""
    return Command(
        (str(real_cluster.kubectl),), home(tmp_path) | {"KUBECONFIG": str(multikueue)}, tmp_path
    )


@pytest.fixture
def sky(multikueue: Path, tmp_path: Path) -> Iterator[Command]:
    """This program, with the context of the worker in the settings."""
    environment = home(tmp_path) | {
        "KUBECONFIG": str(multikueue),
        "PATH": str(Path(sys.executable).parent),
    }
    command = InProcess(PROGRAM, environment, tmp_path)
    assert command("config", "set", "multikueue", f"[{WORKER}]").returncode == 0
    yield command
    command.end()


def copies(kubectl: Command) -> str:
    return kubectl("--context", WORKER, "get", *COPIES).stdout


def test_submit_multikueue_task_runs_on_worker_with_its_files(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/data.txt").write_text("data\n")
    run = "run: cat data.txt; echo $SKYPILOT_NUM_NODES ${#TOKEN}\n"
    task = f"num_nodes: 2\nworkdir: code\nsecrets: {{TOKEN: abc}}\n{SIZE}{run}"
    done = sky("submit", "-", "--queue", QUEUE, stdin=task)
    assert done.returncode == 0, done.stderr
    assert f'the task runs in the cluster "{WORKER}"' in done.stderr
    for node in range(2):
        assert f"node-{node} | data\n" in done.stdout and f"node-{node} | 2 3\n" in done.stdout
    eventually(lambda: [t["status"] for t in sky.json("list")["tasks"]] == ["completed"])
    assert "Backend:    indexed\n" in sky("status", submitted(done)).stdout, "one Job"
    assert "secret/" in copies(kubectl)
    assert sky("stop", submitted(done)).returncode == 0
    eventually(lambda: submitted(done) not in copies(kubectl))


def test_commands_find_multikueue_task_on_worker(sky: Command, kubectl: Command) -> None:
    task = f"name: far\n{SIZE}run: echo here; sleep 300\n"
    done = sky("submit", "-", "--queue", QUEUE, "--detach", stdin=task)
    assert done.returncode == 0, done.stderr
    eventually(lambda: sky("logs", "far").stdout == "here\n")
    eventually(lambda: sky.json("list")["tasks"][0]["status"] == "running")
    pods = ("get", "pods", "-l", "task-name=far", "-o", "name")
    pod = kubectl("--context", WORKER, *pods).stdout.strip().removeprefix("pod/")
    assert pod and pod in sky("status", "far").stdout
    assert sky("exec", "far", "--", "echo", "hello").stdout == "hello\n"
    assert "no problem seen" in sky("doctor", "far").stdout
    assert sky("stop", "far").returncode == 0
    eventually(lambda: kubectl("--context", WORKER, *pods).stdout == "")


def test_submit_multikueue_without_contexts_of_workers_is_refused(
    sky: Command, kubectl: Command
) -> None:
    assert sky("config", "unset", "multikueue").returncode == 0
    done = sky("submit", "-", "--queue", QUEUE, stdin=f"name: none\n{SIZE}run: echo\n")
    assert done.returncode == 2 and "kubectl sky config set multikueue" in done.stderr
    assert kubectl("get", "jobs", "-l", "task-name=none", "-o", "name").stdout == ""


def test_clean_deletes_copies_of_multikueue_tasks_that_are_gone(
    sky: Command, kubectl: Command
) -> None:
    done = sky("submit", "-", "--queue", QUEUE, "--detach", stdin=f"{SIZE}run: sleep 300\n")
    waiting = sky("--context", WORKER, "clean", "--older-than", "0s", "--yes")
    assert waiting.returncode == 0 and submitted(done) in copies(kubectl), "another cluster's"
    assert kubectl("delete", "jobs", "--all").returncode == 0
    cleaned = sky("clean", "--older-than", "0s", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    eventually(lambda: submitted(done) not in copies(kubectl))
