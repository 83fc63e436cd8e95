"""Tasks written for SkyPilot: sizes with a plus, sudo, and a Ray cluster of their own."""

import os
import re
from pathlib import Path

import pytest

from tests.e2e.command import Command, submitted

STANDINS = Path(__file__).parents[1] / "standins"

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


RAY = """
name: cluster
num_nodes: 2
resources: {cpus: 0.1, memory: 64Mi}
file_mounts: {~/bin/ray: STANDIN}
envs: {RAY_HEAD_PORT: "6400", RAY_CMD: python3 ../bin/ray}
run: |
  set -e
  ~/sky_templates/ray/start_cluster
  if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
    sleep 3
    echo trained
  fi
"""
STOP = "  ~/sky_templates/ray/stop_cluster\n  ~/sky_templates/ray/stop_cluster\n"


@pytest.mark.parametrize(
    "stop",
    [pytest.param("", marks=pytest.mark.practice_only), STOP],
    ids=["exit", "stop"],
)
def test_ray_cluster_of_skypilot_has_all_nodes_until_the_head_ends(sky: Command, stop: str) -> None:
    text = RAY.replace("STANDIN", str(STANDINS / "ray.py")) + stop
    done = sky("submit", "-", stdin=text)
    lines = re.sub(r"(?m)^\[?cluster[^ ]* *\|? *", "", done.stdout).splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert any("the Ray cluster is up: 2 of 2 nodes" in line for line in lines), done.stdout
    ended = [line for line in lines if "this Ray worker runs until" in line]
    assert len(ended) == (0 if stop else 1), done.stdout
    assert any("trained" in line for line in lines)
    stopped = [line for line in lines if "no Ray cluster is running on port 6400" in line]
    assert len(stopped) == (2 if stop else 0), done.stdout


def test_ray_cluster_without_ray_says_to_install_it(sky: Command) -> None:
    text = "name: noray\nresources: {cpus: 0.1, memory: 64Mi}\nrun: |\n"
    text += "  RAY_CMD=noray ~/sky_templates/ray/start_cluster\n  python3 -c 'import ray'\n"
    done = sky("submit", "-", stdin=text)
    assert done.returncode == 4
    found = sky("doctor", submitted(done)).stdout
    assert found.splitlines()[0].endswith(" failed: Ray is not installed")
    assert "next: install it in setup, such as with: pip install 'ray[default]'" in found
