"""A neighbour whose objects name the user's Job as their controller or owner."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.foreign import FOREIGN_POD, create, receiving, until_foreign_run
from tests.e2e.command import Command
from tests.e2e.support import until_running
from tests.polling import eventually

ID = "ended001"
TASK = """
name: mine
resources: {image_id: 'busybox:1.36'}
run: echo from the real node
"""


def owner(kubectl: Command, job: str, controller: bool) -> dict[str, Any]:
    metadata = kubectl.json("get", "job", job)["metadata"]
    named = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": metadata["uid"]}
    return named | {"controller": controller}


def test_status_pod_with_forged_controller_is_ignored(sky: Command, kubectl: Command) -> None:
    assert sky("submit", "-", "--id", ID, stdin=TASK).returncode == 0
    job = f"mine-{ID}"
    (pod,) = kubectl.json("get", "pods", "-l", f"job-name={job}")["items"]
    before = sky.json("status", ID)["metadata"]["nodes"]
    time.sleep(2.1)  # its Job finished in an earlier second
    kept = {key: pod["metadata"].get(key, {}) for key in ("labels", "annotations")}
    forged = {"name": "aaa-evil", "ownerReferences": [owner(kubectl, job, controller=True)]}
    create(
        kubectl,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **forged}, "spec": FOREIGN_POD},
    )
    done = kubectl("wait", "--for=condition=Ready", "pod/aaa-evil", "--timeout=60s", timeout=90)
    assert done.returncode == 0, done.stderr
    assert "Pod/aaa-evil is ignored" in sky("status", ID).stderr
    assert sky.json("status", ID)["metadata"]["nodes"] == before
    logs = sky("logs", ID).stdout
    assert "from the real node" in logs
    assert "foreign" not in logs + sky("doctor", ID).stdout


PENDING = """
name: mine
resources: {image_id: 'busybox:1.36'}
workdir: code
config: {kubernetes: {pod_config: {spec: {nodeSelector: {no-such: node}}}}}
run: ls; sleep 300
"""


def replace_pending_pod(kubectl: Command, job: str) -> None:
    """Create a pod in place of the one that the Job created and that cannot start."""
    eventually(lambda: kubectl.json("get", "pods", "-l", f"job-name={job}")["items"], 60)
    (pod,) = kubectl.json("get", "pods", "-l", f"job-name={job}")["items"]
    script = "--from-literal=unpack.sh=echo send; cat > /kubectl-sky/stolen"
    assert kubectl("create", "configmap", "evil-scripts", script).returncode == 0
    metadata: dict[str, Any] = {"name": "evil"}
    metadata["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    metadata |= {key: pod["metadata"].get(key, {}) for key in ("labels", "annotations")}
    metadata["ownerReferences"] = [owner(kubectl, job, controller=True)]
    (node,) = kubectl.json("get", "nodes")["items"]
    spec = {**receiving(), "nodeName": node["metadata"]["name"]}  # so the Job prefers this pod
    create(kubectl, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    until_foreign_run(kubectl, 1)


def test_upload_exec_cp_to_pod_in_place_of_pending_one_are_refused(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    """The Job counts the foreign pod as its own, and deletes the pending one."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_bytes(os.urandom(6_000_000))
    task = sky.write("task.yaml", PENDING)
    running = sky.start("submit", task, "--id", ID)
    eventually(lambda: kubectl("get", "job", f"mine-{ID}").returncode == 0, 60)
    running.kill()  # it would delete the task when it refuses the upload
    replace_pending_pod(kubectl, f"mine-{ID}")
    eventually(lambda: sky.json("status", ID)["metadata"]["running_nodes"] == 1, 60)
    for words in (
        ("exec", ID, "-i", "--", "sh", "-c", "cat > /tmp/in"),
        ("cp", task, f"{ID}:/tmp/in"),
    ):
        done = sky(*words, stdin="for my node")
        assert done.returncode == 3, done.stderr
        assert "pod evil does not run your task: spec." in done.stderr
    done = sky("submit", task, "--id", ID)
    assert done.returncode == 3, done.stderr
    assert "pod evil does not run your task: spec." in done.stderr
    stolen = kubectl("exec", "evil", "--", "ls", "/kubectl-sky", "/tmp")
    assert "stolen" not in stolen.stdout
    assert "in" not in stolen.stdout.split()


PORTS = """
name: mine
resources: {image_id: 'busybox:1.36', ports: 8080}
run: sleep 300
"""


@pytest.mark.practice_only
def test_ports_service_with_forged_owner_is_not_listed(sky: Command, kubectl: Command) -> None:
    assert sky("submit", "-", "--id", ID, "--detach", stdin=PORTS).returncode == 0
    until_running(sky, ID)
    before = sky.json("ports", ID)
    (real,) = kubectl.json("get", "services", "-l", f"task-id={ID},kubectl-sky/ports=true")["items"]
    kept = {key: real["metadata"].get(key, {}) for key in ("labels", "annotations")}
    owners = [owner(kubectl, f"mine-{ID}", controller=False)]
    for name, owned in (("aaa-evil", []), ("bbb-evil", owners)):
        metadata = {"name": name, "ownerReferences": owned, **kept}
        spec = {"type": "ExternalName", "externalName": "evil.example", "ports": [{"port": 8080}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        create(kubectl, service)
    assert sky.json("ports", ID) | {"ready": True} == before | {"ready": True}
    assert "evil" not in sky("ports", ID).stdout


KEEPER = """
resources: {image_id: 'busybox:1.36'}
volumes: {/data: notes}
run: sleep 1
"""


@pytest.mark.practice_only
def test_submit_newer_pvc_with_labels_of_volume_is_not_mounted(
    sky: Command, kubectl: Command
) -> None:
    assert sky("volumes", "create", "notes", "1Gi").returncode == 0
    (real,) = kubectl.json("get", "pvc")["items"]
    time.sleep(1.1)
    kept = {key: real["metadata"].get(key, {}) for key in ("labels", "annotations")}
    metadata = {"name": "evil", "labels": kept["labels"], "annotations": {}}
    for key, text in kept["annotations"].items():
        if key.startswith("kubectl-sky/"):
            metadata["annotations"][key] = text
    spec = {key: real["spec"][key] for key in ("accessModes", "resources")}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    create(kubectl, {**claim, "metadata": metadata, "spec": spec})
    done = sky("submit", "-", "--dry-run=client", "-o", "json", stdin=KEEPER)
    assert done.returncode == 0, done.stderr
    assert f'"claimName": "{real["metadata"]["name"]}"' in done.stdout
    assert '"claimName": "evil"' not in done.stdout
