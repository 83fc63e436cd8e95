"""Tasks written for SkyPilot: sizes with a plus, and sudo."""

import os

import pytest

from tests.e2e.command import Command, submitted

TASK = """
name: plus
resources: {cpus: 0.1+, memory: 64Mi+}
setup: sudo sh -c 'echo ready > /tmp/kubectl-sky-plus'
run: |
  echo /tmp/kubectl-sky-plus | xargs sudo -E cat
  sudo rm /tmp/kubectl-sky-plus
"""


@pytest.mark.skipif(os.getuid() != 0, reason="on the practice cluster, root gets a sudo")
@pytest.mark.parametrize("image", ["python:3.13-slim", "busybox:1.36"])
def test_submit_cpus_with_plus_are_requests_and_sudo_works(
    sky: Command, kubectl: Command, image: str
) -> None:
    done = sky("submit", "-", "--image", image, stdin=TASK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "kubectl-sky:" not in line][1:] == [
        "ready"
    ]
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={submitted(done)}")["items"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "64Mi"}}
    assert pod["status"]["qosClass"] == "Burstable"
