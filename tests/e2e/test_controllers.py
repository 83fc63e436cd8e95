"""The tasks controller as a process: what no client follows goes on, with the installed rights."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from urllib.request import urlopen

import pytest

from tests.actions.test_notify import Hook, hook
from tests.e2e.command import Command
from tests.e2e.pipelines import chain
from tests.e2e.support import as_controller, write_settings
from tests.polling import eventually
from tests.ports import free_port

__all__ = ["hook"]

LEASE = "kubectl-sky-tasks"
METRICS = free_port()
IMAGE = "resources: {image_id: 'busybox:1.36'}\n"
GROUP = (
    "name: duo\nexecution: parallel\nprimary_tasks: [main]\n"
    f"---\nname: main\n{IMAGE}run: echo done\n---\nname: helper\n{IMAGE}run: sleep 600\n"
)
WIDE = f"name: wide\nnum_nodes: 3\n{IMAGE}run: test $NODE_RANK = 1 && exit 3; sleep 600\n"


@pytest.fixture
def controller(
    sky: Command, kubectl: Command, environment: dict[str, str], namespace: str
) -> Iterator[subprocess.Popen[str]]:
    """A process that leads, with the rights of `controllers install` in the test's namespace."""
    command = as_controller(sky, kubectl, environment, namespace, "tasks")
    run = ("controllers", "run", "--only", "tasks", "-n", namespace)
    process = command.start(*run, "--health-port", str(METRICS))
    eventually(lambda: holder(kubectl))
    yield process
    command.end()


def holder(kubectl: Command) -> str:
    """Return who holds the Lease."""
    path = "jsonpath={.spec.holderIdentity}"
    return kubectl("get", "lease", LEASE, "-o", path, "--ignore-not-found").stdout


def statuses(sky: Command, pipeline: str) -> dict[str, str]:
    """Return the status of each task of a pipeline, by name; empty without any."""
    done = sky("status", pipeline, "-o", "json")
    tasks = json.loads(done.stdout)["tasks"] if done.returncode == 0 else []
    return {task["name"]: task["status"] for task in tasks}


def wide_jobs(kubectl: Command) -> list[bool]:
    """Return whether each node's Job of the task "wide" has failed."""
    items = json.loads(kubectl("get", "jobs", "-l", "task-id=wide0001", "-o", "json").stdout)
    return [
        any(
            condition["type"] == "Failed" and condition["status"] == "True"
            for condition in job["status"].get("conditions", ())
        )
        for job in items["items"]
    ]


def test_controller_leads_detached_tasks_without_client(
    sky: Command, kubectl: Command, controller: subprocess.Popen[str]
) -> None:
    """With the rights of the ServiceAccount alone."""
    files = {
        "chain001": chain("echo one", "echo two", "echo three"),
        "fails001": chain("echo one", "exit 3", "echo three"),
        "group001": GROUP,
        "wide0001": WIDE,
    }
    for task_id, text in files.items():
        done = sky("submit", sky.write("task.yaml", text), "--detach", "--id", task_id)
        assert done.returncode == 0, done.stderr
        assert re.search(
            r"^a controller (resumes|stops) .*; no client is needed$", done.stderr, re.M
        )
    eventually(lambda: statuses(sky, "chain001") == dict.fromkeys("abc", "completed"))
    eventually(lambda: statuses(sky, "fails001") == {"a": "completed", "b": "failed"})
    eventually(lambda: statuses(sky, "group001") == {"main": "completed"})
    eventually(lambda: wide_jobs(kubectl) == [True] * 3)
    follow = sky("submit", sky.write("task.yaml", files["chain001"]), "--id", "follow01")
    assert (follow.returncode, follow.stdout.splitlines()[1:]) == (0, ["one", "two", "three"])

    with urlopen(f"http://127.0.0.1:{METRICS}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    numbers = dict(re.findall(r"^kubectl_sky_controller_(\w+){.*} (.*)$", text, re.M))
    assert (float(numbers["leader"]), float(numbers["errors_total"])) == (1, 0)
    assert float(numbers["reconciles_total"]) >= len(files)

    controller.terminate()
    logged = controller.communicate(timeout=60)[1]
    assert controller.returncode == 0, logged
    assert "Traceback" not in logged
    assert "is forbidden" not in logged, logged
    assert holder(kubectl) == ""


@pytest.fixture
def notified(hook: Hook, tmp_path: Path) -> Hook:
    """What the controller tells, if it starts after this."""
    write_settings(tmp_path, f"notify: {hook.url}\n")
    return hook


def test_controller_starts_task_after_another_and_notifies_of_both(
    sky: Command, notified: Hook, controller: subprocess.Popen[str]
) -> None:
    first = f"name: first\n{IMAGE}run: sleep 3\n"
    then = f"name: then\n{IMAGE}run: exit 3\n"
    assert sky("submit", "-", "-d", "--id", "first001", stdin=first).returncode == 0
    done = sky("submit", "-", "-d", "--id", "then0001", "--after", "first001", stdin=then)
    assert done.returncode == 0, done.stderr
    eventually(lambda: sky.json("status", "then0001")["status"] == "failed")
    eventually(lambda: len(notified.received) == 2, message=lambda: notified.received)
    texts = [str(body["text"]) for body in notified.received]
    assert "first001" in texts[0] and "then0001" in texts[1], texts
    assert controller.poll() is None


@pytest.fixture
def remembered(tmp_path: Path) -> None:
    """The setting of a controller that starts after this."""
    write_settings(tmp_path, "history: 5\n")


def test_controller_remembers_finished_and_stopped_tasks_whose_objects_are_gone(
    sky: Command,
    kubectl: Command,
    tmp_path: Path,
    remembered: None,
    controller: subprocess.Popen[str],
) -> None:
    """With the rights of the ServiceAccount alone."""
    assert sky("volumes", "create", "logs", "1Gi").returncode == 0
    logs = "volumes: {/data: logs}\nconfig: {kubectl_sky: {logs: /data}}\n"
    failing = f"name: failing\n{IMAGE}{logs}run: echo hello; exit 3\n"
    endless = f"name: endless\nnum_nodes: 2\n{IMAGE}run: sleep 600\n"
    assert sky("submit", "-", "--id", "failing1", stdin=failing).returncode == 4
    assert sky("submit", "-", "-d", "--id", "endless1", stdin=endless).returncode == 0

    eventually(lambda: sky.json("status", "endless1")["status"] == "running")
    history = ("get", "configmap", "kubectl-sky-history", "-o", "name", "--ignore-not-found")
    eventually(lambda: kubectl(*history).stdout)
    none = sky("list", "--deleted")
    assert (none.returncode, none.stdout) == (0, ""), none
    assert "No deleted tasks found in namespace" in none.stderr
    assert sky("stop", "failing1", "endless1").returncode == 0

    eventually(lambda: len(sky.json("list", "--deleted")["tasks"]) == 2)
    rows = sky("list", "--deleted").stdout.splitlines()
    table = {row.split()[0]: row.split(maxsplit=5) for row in rows[1:]}
    assert table["failing1"][1:4] == ["failing", "failed", "0/1"]
    assert table["failing1"][5] == "node-0: exit code 3"
    assert table["endless1"][1:4] == ["endless", "failed", "0/2"]

    (task,) = sky.json("list", "--deleted", "--status", "stopped")["tasks"]
    assert task["task_id"] == "endless1"

    rmtree(tmp_path / ".cache")  # what this client remembers
    read = sky("logs", "failing", "--yes")
    assert (read.returncode, "hello" in read.stdout.splitlines()) == (0, True), read.stderr
    assert controller.poll() is None


def test_controllers_install_is_accepted_by_cluster(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    level = "pod-security.kubernetes.io/warn=restricted"
    assert kubectl("label", "namespace", namespace, level).returncode == 0
    text = sky("controllers", "install", "-n", namespace).stdout
    done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
