"""Another user of the namespace who copies all labels and creates objects under our names first."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.attacks.foreign import create, foreign_job, foreign_pod, receiving, until_foreign_run
from tests.e2e.command import Command
from tests.e2e.support import until_running
from tests.polling import eventually

ID = "mine0001"
TASK = """
name: mine
resources: {image_id: 'busybox:1.36'}
secrets: {TOKEN: hunter2}
run: echo from the real node; sleep 300
"""
WORKDIR = """
name: mine
num_nodes: 2
resources: {image_id: 'python:3.13-slim'}
workdir: code
run: ls; sleep 300
"""


@pytest.fixture
def task(sky: Command, kubectl: Command) -> str:
    """A task with a single node, next to a foreign Pod and Job with all of its labels."""
    done = sky("submit", "-", "--id", ID, "--detach", stdin=TASK)
    assert done.returncode == 0, done.stderr
    until_running(sky, ID)
    time.sleep(1.1)  # objects created in the same second are refused, not ignored
    foreign_pod(kubectl, "evil-pod", f"mine-{ID}")
    foreign_job(kubectl, "evil-job", f"mine-{ID}")
    until_foreign_run(kubectl, 2)
    return ID


def test_foreign_pod_and_job_with_task_labels_are_ignored(
    sky: Command, kubectl: Command, task: str, tmp_path: Path
) -> None:
    done = sky("status", task)
    assert done.returncode == 0
    assert "warning: Pod/evil-pod is ignored: it has the labels of task mine0001" in done.stderr
    assert "warning: Job/evil-job is ignored" in done.stderr
    (node,) = sky.json("status", task)["metadata"]["nodes"]
    assert (node["job"], node["state"]) == (f"mine-{ID}", "running")
    (listed,) = sky.json("list")["tasks"]
    assert listed["metadata"]["node_jobs"] == [f"mine-{ID}"]
    host = sky("exec", task, "--", "hostname").stdout.strip()
    assert host.startswith(f"mine-{ID}"), host
    assert "evil" not in sky("exec", task, "--all-ranks", "--", "hostname").stdout
    (tmp_path / "sent").write_text("for my node")
    assert sky("cp", "sent", f"{task}:/tmp/sent").returncode == 0
    assert kubectl("exec", "evil-pod", "--", "ls", "/tmp/sent").returncode != 0
    assert sky("exec", task, "--", "cat", "/tmp/sent").stdout == "for my node"
    logs = sky("logs", task)
    assert "from the real node" in logs.stdout
    assert "foreign" not in logs.stdout + sky("doctor", task).stdout
    assert sky("stop", task, "--yes").returncode == 0
    kept = [item["metadata"]["name"] for item in kubectl.json("get", "jobs")["items"]]
    assert kept == ["evil-job"]
    assert kubectl("get", "pod", "evil-pod").returncode == 0


def test_upload_reaches_only_pods_of_task(sky: Command, kubectl: Command, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_bytes(os.urandom(6_000_000))
    running = sky.start("submit", sky.write("task.yaml", WORKDIR), "--id", ID)
    get = ("get", "pod", "-l", f"task-id={ID}", "-o", "name")
    eventually(lambda: kubectl(*get).stdout.count("pod/") == 2, 90)
    script = "--from-literal=unpack.sh=echo send; cat > /kubectl-sky/stolen"
    assert kubectl("create", "configmap", "evil-scripts", script).returncode == 0
    for node in (0, 1):
        foreign_pod(kubectl, f"evil-{node}", f"mine-{ID}-node-{node}", receiving())
    until_foreign_run(kubectl, 2)
    ls = ("exec", ID, "--all-ranks", "--", "ls", "data")
    eventually(lambda: sky(*ls).stdout.count("data") == 2, 90)
    for node in (0, 1):
        done = kubectl("exec", f"evil-{node}", "--", "ls", "/kubectl-sky")
        assert (done.returncode, done.stdout) == (0, "")
    running.kill()


def test_submit_existing_job_with_extra_pod_fields_is_refused(
    sky: Command, kubectl: Command
) -> None:
    """Fields that the API server sets are no difference; tests/observe has the other fields."""
    shown = sky("submit", "-", "--id", ID, "--dry-run=client", "-o", "json", stdin=TASK)
    assert shown.returncode == 0, shown.stderr
    (job,) = (item for item in json.loads(shown.stdout)["items"] if item["kind"] == "Job")
    (main,) = job["spec"]["template"]["spec"]["containers"]
    main["lifecycle"] = {"postStart": {"exec": {"command": ["sh", "-c", "env"]}}}
    job["spec"]["suspend"] = True
    manager = "--field-manager=kubectl-sky"
    done = kubectl("create", manager, "-f", "-", stdin=json.dumps(job))
    assert done.returncode == 0, done.stderr
    refused = sky("submit", "-", "--id", ID, "--detach", stdin=TASK)
    assert refused.returncode == 2, refused.stderr
    assert "spec.containers[main].lifecycle" in refused.stderr
    assert kubectl("get", "secret", f"mine-{ID}").returncode != 0


@pytest.mark.practice_only
def test_pod_extra_keys_in_config_map_are_ignored(sky: Command, kubectl: Command) -> None:
    """Keys that another user adds to the ConfigMap do not become scripts."""
    rendered = sky("render", sky.write("task.yaml", TASK), "-o", "json", "--show-secrets")
    items = json.loads(rendered.stdout)["items"]
    for item in items:
        if item["kind"] == "ConfigMap":
            item["data"]["clone.sh"] = "echo pwned"
        item["metadata"].pop("namespace", None)
    create(kubectl, *items)
    task_id = items[-1]["metadata"]["labels"]["task-id"]
    eventually(lambda: "from the real node" in sky("logs", task_id).stdout, 90)
    assert "pwned" not in sky("logs", task_id).stdout
