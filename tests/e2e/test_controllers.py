"""The tasks controller as a process: what no client follows goes on, with the installed rights."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.e2e.command import Command
from tests.e2e.pipelines import chain
from tests.e2e.support import as_controller
from tests.polling import eventually

LEASE = "kubectl-sky-tasks"
IMAGE = "resources: {image_id: 'busybox:1.36'}\n"
GROUP = (
    "name: duo\nexecution: parallel\nprimary_tasks: [main]\n"
    f"---\nname: main\n{IMAGE}run: echo done\n---\nname: helper\n{IMAGE}run: sleep 600\n"
)
WIDE = f"name: wide\nnum_nodes: 3\n{IMAGE}run: test $NODE_RANK = 1 && exit 3; sleep 600\n"


@dataclass
class Controller:
    """A controller that acts as the ServiceAccount of `controllers install`."""

    command: Command
    kubectl: Command
    namespace: str
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> None:
        """Start a process, and wait until it leads."""
        previous = self.holder()
        run = ("controllers", "run", "--only", "tasks", "-n", self.namespace)
        self.processes.append(self.command.start(*run))
        eventually(lambda: self.holder() not in ("", previous))

    def stop(self, number: signal.Signals) -> str:
        """End the last process; return what it logged."""
        process = self.processes[-1]
        process.send_signal(number)
        logged = process.communicate(timeout=60)[1]
        assert process.returncode == (0 if number is signal.SIGTERM else -number), logged
        assert "Traceback" not in logged
        return logged

    def holder(self) -> str:
        """Return who holds the Lease."""
        path = "jsonpath={.spec.holderIdentity}"
        return self.kubectl("get", "lease", LEASE, "-o", path, "--ignore-not-found").stdout

    def expire(self) -> None:
        """Let the Lease expire."""
        spec = json.dumps({"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}})
        done = self.kubectl("patch", "lease", LEASE, "--type=merge", "-p", spec)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def controller(
    sky: Command, kubectl: Command, environment: dict[str, str], namespace: str
) -> Iterator[Controller]:
    """A controller with the rights of `controllers install` for the test's namespace."""
    command = as_controller(sky, kubectl, environment, namespace, "tasks")
    yield Controller(command, kubectl, namespace)
    command.end()


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
    sky: Command, kubectl: Command, controller: Controller
) -> None:
    """With the rights of the ServiceAccount alone."""
    controller.start()
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
    logged = controller.stop(signal.SIGTERM)
    assert "is forbidden" not in logged, logged
    assert controller.holder() == ""


def test_controllers_install_is_accepted_by_cluster(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    level = "pod-security.kubernetes.io/warn=restricted"
    assert kubectl("label", "namespace", namespace, level).returncode == 0
    text = sky("controllers", "install", "-n", namespace).stdout
    done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
