"""Mounts of tasks: ephemeral volumes, SkyPilot PVCs and host paths, also in the home directory."""

import pytest

from tests.e2e.command import Command, submitted

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


def test_submit_read_only_volume_is_not_writable(sky: Command) -> None:
    assert sky("volumes", "create", "notes", "1Gi").returncode == 0
    script = "run: touch /d/x\nvolumes: {/d: {name: notes, mode: ro}}\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 4
    assert "Read-only file system" in done.stdout


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
