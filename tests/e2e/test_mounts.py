"""Mounts of tasks: ephemeral volumes, SkyPilot PVCs and host paths, also in the home directory."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import Command, submitted
from tests.e2e.support import write_settings

OWN = """
name: own
num_nodes: 2
resources: {image_id: "busybox:1.36"}
volumes: {/scratch: {size: 1Gi, labels: {team: research}}, ~/my data/x: {size: 1Gi}}
run: |
  echo $NODE_RANK > /scratch/$NODE_RANK
  echo home > ~/my\\ data/x/$NODE_RANK
  cd ~ && cat "my data/x/$NODE_RANK"
"""
SKYPILOT = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "data-1a2b-3c4d",
        "labels": {"parent": "skypilot", "skypilot-name": "data"},
    },
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_submit_ephemeral_volume_is_deleted_with_task(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", stdin=OWN)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[1:]) == ["node-0 | home", "node-1 | home"]
    assert "volumes./scratch: the PVC is ReadWriteOnce" in done.stderr
    task = submitted(done)
    claims = kubectl.json("get", "pvc", "-l", f"task-id={task}")["items"]
    names = [claim["metadata"]["name"] for claim in claims]
    assert names == [f"own-{task}-volume-0", f"own-{task}-volume-1"]
    for claim in claims:
        owners = [owner["name"] for owner in claim["metadata"]["ownerReferences"]]
        assert owners == [f"own-{task}-node-0", f"own-{task}-node-1"]
    assert claims[0]["metadata"]["labels"]["team"] == "research"
    pods = kubectl.json("get", "pods", "-l", f"task-id={task}")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
    assert sky.json("volumes", "list")["volumes"] == [], "ephemeral volumes are not listed"
    again = sky("submit", "-", "--id", task, "--detach", stdin=OWN)
    assert "unchanged" in again.stdout, again.stderr
    assert sky("stop", task).returncode == 0
    kubectl("wait", "--for=delete", "pvc", "--all", "--timeout=90s", timeout=100)
    assert kubectl.json("get", "pvc")["items"] == []


@pytest.mark.practice_only
def test_submit_skypilot_pvc_is_mounted_by_volume_name(sky: Command, kubectl: Command) -> None:
    assert kubectl("create", "-f", "-", stdin=json.dumps(SKYPILOT)).returncode == 0
    for name in ("data", "data-1a2b-3c4d"):
        script = f"run: ls -d /d\nvolumes: {{/d: {{name: {name}, mode: ro}}}}\n"
        shown = sky("submit", "-", "--dry-run=server", "-o", "json", stdin=script)
        assert shown.returncode == 0, shown.stderr
        (job,) = (item for item in json.loads(shown.stdout)["items"] if item["kind"] == "Job")
        pod = job["spec"]["template"]["spec"]
        (mounted,) = (item for item in pod["volumes"] if "persistentVolumeClaim" in item)
        assert mounted["persistentVolumeClaim"]["claimName"] == "data-1a2b-3c4d"
        assert pod["containers"][0]["volumeMounts"][-1]["readOnly"] is True
        assert "no volume and no claim" not in shown.stderr


def test_submit_read_only_volume_is_not_writable(sky: Command) -> None:
    assert sky("volumes", "create", "notes", "1Gi").returncode == 0
    script = "run: touch /d/x\nvolumes: {/d: {name: notes, mode: ro}}\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 4
    assert "Read-only file system" in done.stdout


@pytest.mark.practice_only
def test_submit_host_path_is_refused_unless_allowed_in_settings(
    sky: Command, tmp_path: Path
) -> None:
    script = "run: ls -d /host\nvolumes: {/host: {host_path: /tmp, mode: ro}}\n"
    refused = sky("submit", "-", stdin=script)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "volumes./host.host_path: the settings do not let tasks mount /tmp" in refused.stderr
    write_settings(tmp_path, "host_paths: [/tmp]\n")
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["/host"]


@pytest.mark.practice_only
def test_submit_volume_in_home_is_mounted_with_unwritable_home(sky: Command) -> None:
    script = """
resources: {image_id: "busybox:1.36"}
volumes: {~/a: {size: 1Gi}}
envs: {HOME: /tmp/home}
run: cat ~/a/kept
"""
    empty = sky("submit", "-", stdin=script.replace("cat ~/a/kept", "ls ~/a"))
    assert empty.returncode == 0, empty.stderr
    script = script.replace("/tmp/home", "/bin/../proc/self").replace("cat", "echo it is at")
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, "an unwritable home is replaced by a writable one"
    assert done.stdout.splitlines()[-1].endswith("/a/kept")


@pytest.mark.practice_only
def test_submit_missing_volume_dry_run_prints_warning(sky: Command) -> None:
    done = sky("submit", "-", "--dry-run=client", stdin="run: x\nvolumes: {/d: nothing}\n")
    assert done.returncode == 0
    assert 'volume or PVC "nothing" not found in namespace' in done.stderr


@pytest.mark.practice_only
@pytest.mark.parametrize("single", ["together", "refuse"])
def test_submit_rwo_volume_with_two_nodes_is_warned_or_refused(
    sky: Command, tmp_path: Path, single: str
) -> None:
    write_settings(tmp_path, f"single_node_volumes: {single}\n")
    assert sky("volumes", "create", "notes", "1Gi").returncode == 0
    script = "num_nodes: 2\nrun: 'true'\nvolumes: {/d: notes}\n"
    done = sky("submit", "-", "--dry-run=client", stdin=script)
    assert done.returncode == (0 if single == "together" else 2)
    assert "volumes./d: the PVC is ReadWriteOnce" in done.stderr
