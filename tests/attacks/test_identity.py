"""Another user of the namespace who copies all labels and creates objects under our names first."""

import base64
import json
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.foreign import FOREIGN_POD, copied_metadata, create
from tests.e2e.command import Command, submitted
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


def foreign_job(kubectl: Command, name: str, like: str, **labels: str) -> None:
    metadata = copied_metadata(kubectl, "job", like, **labels)
    template = {"metadata": {"labels": metadata["labels"]}, "spec": FOREIGN_POD}
    create(
        kubectl,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, **metadata},
            "spec": {"backoffLimit": 0, "template": template},
        },
    )


def receiving() -> dict[str, Any]:
    """Return a pod that accepts uploads."""
    mounts = [
        {"name": "scripts", "mountPath": "/etc/kubectl-sky"},
        {"name": "kubectl-sky", "mountPath": "/kubectl-sky"},
    ]
    volumes = [
        {"name": "scripts", "configMap": {"name": "evil-scripts"}},
        {"name": "kubectl-sky", "emptyDir": {}},
    ]
    containers = [{**FOREIGN_POD["containers"][0], "volumeMounts": mounts}]
    return {**FOREIGN_POD, "containers": containers, "volumes": volumes}


def foreign_pod(kubectl: Command, name: str, like: str, spec: dict[str, Any] | None = None) -> None:
    pod = kubectl.json("get", "pod", "-l", f"job-name={like}")["items"][0]["metadata"]["name"]
    metadata = copied_metadata(kubectl, "pod", pod)
    create(
        kubectl,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": spec or FOREIGN_POD,
        },
    )


def until_foreign_run(kubectl: Command, count: int) -> None:
    def check() -> bool:
        pods = kubectl.json("get", "pods", "--field-selector", "status.phase=Running")["items"]
        names = [pod["metadata"]["name"] for pod in pods]
        return bool(sum(name.startswith("evil") for name in names) >= count)

    eventually(check, 90)


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


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))


@pytest.mark.practice_only
@pytest.mark.parametrize("backend", ["indexed", "array"])
def test_list_job_with_two_billion_completions_is_bounded(
    sky: Command, kubectl: Command, backend: str
) -> None:
    done = sky("submit", "-", "--id", ID, "--detach", stdin=TASK)
    assert done.returncode == 0, done.stderr
    metadata = copied_metadata(kubectl, "job", f"mine-{ID}", **{"task-id": "huge0001"})
    metadata["annotations"] |= {
        "kubectl-sky/backend": backend,
        "kubectl-sky/num-nodes": "9" * 5000,
        "kubectl-sky/array": "0-1999999999",
        "kubectl-sky/stages": "9" * 12,
    }
    metadata["labels"] |= {"kubectl-sky/pipeline": "huge0002", "kubectl-sky/stage": "1"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "evil", **metadata},
        "spec": {
            "suspend": True,
            "completions": 2_000_000_000,
            "parallelism": 1,
            "template": {"spec": FOREIGN_POD},
        },
    }
    create(kubectl, job)
    for words in (("list",), ("list", "-o", "json"), ("status", ID), ("top", ID)):
        done = subprocess.run(
            [*sky.program, *words],
            cwd=sky.folder,
            env=sky.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=limit_memory,
        )
        assert "Traceback" not in done.stderr + done.stdout
        assert "MemoryError" not in done.stderr
        if words[0] == "list":
            assert done.returncode == 0, done.stderr
            assert "warning: Job/evil is ignored: it claims to have more than 100,000 nodes" in (
                done.stderr
            )
            assert ID in done.stdout
            assert "huge0001" not in done.stdout


TAKEN: dict[str, Any] = {
    "ConfigMap": ("create", "configmap", "mine-taken001", "--from-literal=clone.sh=echo pwned"),
    "Secret": ("create", "secret", "generic", "mine-taken001", "--from-literal=TOKEN=x"),
    "Job": ("create", "job", "mine-taken001", "--image=busybox:1.36", "--", "sleep", "300"),
}


@pytest.mark.practice_only
@pytest.mark.parametrize("kind", TAKEN)
def test_submit_existing_object_of_same_name_is_refused(
    sky: Command, kubectl: Command, kind: str
) -> None:
    assert kubectl(*TAKEN[kind]).returncode == 0
    done = sky("submit", "-", "--id", "taken001", "--detach", stdin=TASK)
    assert done.returncode == 2, done.stderr
    assert f"{kind}/mine-taken001 already exists and was not created by this task" in done.stderr
    assert "hunter2" not in done.stderr
    live = kubectl.json("get", kind, "mine-taken001")
    assert "task-id" not in live["metadata"].get("labels", {})
    left = kubectl("get", "configmaps,secrets,jobs", "-l", "task-id=taken001", "-o", "name")
    assert left.stdout == ""


@pytest.mark.practice_only
def test_submit_existing_config_map_with_extra_key_is_refused(
    sky: Command, kubectl: Command
) -> None:
    """A copy of our object with the same labels and content, and an extra key."""
    shown = sky("submit", "-", "--id", "taken002", "--dry-run", "client", "-o", "json", stdin=TASK)
    items = json.loads(shown.stdout)["items"]
    (config_map,) = [item for item in items if item["kind"] == "ConfigMap"]
    config_map["data"]["clone.sh"] = "echo pwned"
    create(kubectl, config_map)
    done = sky("submit", "-", "--id", "taken002", "--detach", stdin=TASK)
    assert done.returncode == 2, done.stderr
    assert 'ConfigMap/mine-taken002: data: has the key "clone.sh"' in done.stderr
    assert kubectl("get", "jobs", "-o", "name").stdout == ""


HOOK = {"postStart": {"exec": {"command": ["sh", "-c", "env"]}}}
EXTRA = {"name": "extra", "image": "busybox:1.36", "command": ["env"]}
PRELOAD = {"name": "LD_PRELOAD", "value": "x"}


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("spec.containers[main].lifecycle", {"lifecycle": HOOK}),
        *(
            pytest.param(*added, marks=pytest.mark.practice_only)
            for added in (
                ("spec.initContainers", {"initContainers": [EXTRA]}),
                ("spec.serviceAccountName", {"serviceAccountName": "default"}),
                ("spec.containers[main].env[LD_PRELOAD]", {"env": [PRELOAD]}),
            )
        ),
    ],
)
def test_submit_existing_job_with_extra_pod_fields_is_refused(
    sky: Command, kubectl: Command, where: str, change: dict[str, Any]
) -> None:
    shown = sky("submit", "-", "--id", ID, "--dry-run=client", "-o", "json", stdin=TASK)
    assert shown.returncode == 0, shown.stderr
    (job,) = (item for item in json.loads(shown.stdout)["items"] if item["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    for key, value in change.items():
        target = main if "[main]" in where else pod
        target[key] = [*target.get(key, []), *value] if isinstance(value, list) else value
    job["spec"]["suspend"] = True
    manager = "--field-manager=kubectl-sky"
    done = kubectl("create", manager, "-f", "-", stdin=json.dumps(job))
    assert done.returncode == 0, done.stderr
    refused = sky("submit", "-", "--id", ID, "--detach", stdin=TASK)
    assert refused.returncode == 2, refused.stderr
    assert f"{where}" in refused.stderr
    assert kubectl("get", "secret", f"mine-{ID}").returncode != 0


@pytest.mark.practice_only
def test_submit_existing_immutable_service_is_refused(sky: Command, kubectl: Command) -> None:
    task = TASK.replace("name: mine", "name: mine\nnum_nodes: 2")
    done = kubectl("create", "service", "externalname", "mine-taken003", "--external-name=evil.org")
    assert done.returncode == 0, done.stderr
    done = sky("submit", "-", "--id", "taken003", "--detach", stdin=task)
    assert done.returncode == 2, done.stderr
    assert "Service/mine-taken003 already exists" in done.stderr


def files_of(kubectl: Command) -> dict[str, Any]:
    (config_map,) = kubectl.json("get", "configmaps", "-l", "kubectl-sky/files=true")["items"]
    return dict(config_map)


@pytest.mark.practice_only
@pytest.mark.parametrize("immutable", [True, False])
def test_submit_existing_modified_shared_files_are_refused(
    sky: Command, kubectl: Command, tmp_path: Path, immutable: bool
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.sh").write_text("echo mine\n")
    task = TASK + "workdir: code\n"
    first = sky("submit", "-", "--detach", stdin=task)
    assert first.returncode == 0, first.stderr
    item = files_of(kubectl)
    name = item["metadata"]["name"]
    again = sky("submit", "-", "--detach", stdin=task)
    assert again.returncode == 0, "the same files are shared"
    for done in (first, again):
        assert sky("stop", submitted(done), "--yes").returncode == 0
    kubectl("delete", "configmap", name, "--ignore-not-found")
    kept = {key: item["metadata"][key] for key in ("labels", "annotations")}
    item["metadata"] = {"name": name, **kept}
    item["immutable"] = immutable
    if immutable:
        key = next(iter(item["binaryData"]))
        item["binaryData"][key] = base64.b64encode(b"evil").decode()
    create(kubectl, item)
    done = sky("submit", "-", "--detach", stdin=task)
    assert done.returncode == 2, done.stderr
    assert f"ConfigMap/{name} already exists and was not created by this task" in done.stderr
    assert files_of(kubectl)["metadata"]["name"] == name


@pytest.mark.practice_only
def test_pod_with_replaced_files_fails(sky: Command, kubectl: Command, tmp_path: Path) -> None:
    """As if replaced between the check by submit and the start of the pod."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.sh").write_text("echo mine\n")
    rendered = sky("render", sky.write("task.yaml", TASK + "workdir: code\n"), "-o", "json",
                   "--show-secrets")  # fmt: skip
    assert rendered.returncode == 0, rendered.stderr
    items = json.loads(rendered.stdout)["items"]
    for item in items:
        if "binaryData" in item:
            key = next(iter(item["binaryData"]))
            item["binaryData"][key] = base64.b64encode(b"evil").decode()
        item["metadata"].pop("namespace", None)
    create(kubectl, *items)
    task_id = items[-1]["metadata"]["labels"]["task-id"]
    done = sky("logs", task_id, "--all-users", "--follow")
    assert "are not those that were submitted" in done.stdout, done.stderr


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
