"""The workflows of the original specification, run through kubectl as written."""

import re

import pytest

from tests import seed
from tests.cluster.images import STANDINS
from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.polling import eventually

# The Service that MASTER_ADDR of the example names; the user creates it, selecting by task labels.
MASTER = """\
apiVersion: v1
kind: Service
metadata: {name: master-service}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {task-name: distributed-training, node-idx: "0"}
"""


@pytest.fixture
def images(cluster: Cluster) -> None:
    """Skip if the images lack the stand-ins for what the examples install and start."""
    if cluster.driver != "machine":
        pytest.skip(
            f"needs the images with {STANDINS.name}, which a {cluster.driver} cluster lacks"
        )


def in_image(kubectl: Command) -> None:
    """Start tasks in the image's working directory, where the programs of the examples are."""
    done = kubectl("sky", "config", "set", "start_directory", "image")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("images")
def test_task_lifecycle_from_specification_completes(kubectl: Command) -> None:
    done = kubectl("sky", "auth", "login", "myuser")
    assert done.returncode == 0, done.stderr
    done = kubectl("sky", "volumes", "create", "data-vol", "10Gi")
    volume = re.search(r"volume/([a-z0-9]{8})", done.stdout)
    assert volume, done.stderr
    path = kubectl.write("task.yaml", seed.TASK)
    in_image(kubectl)

    # Smaller sizes, because a test node has two cores.
    done = kubectl("sky", "submit", path, "--cpus", "100m", "--memory", "128Mi")
    assert done.returncode == 0, done.stderr
    task = submitted(done)
    for rank in range(2):
        assert f"node-{rank} | pip (a stand-in): install torch numpy\n" in done.stdout
        assert f"node-{rank} | rank {rank} of 2 trained 100 epochs\n" in done.stdout

    (listed,) = kubectl.json("sky", "list")["tasks"]
    assert (listed["task_id"], listed["status"], listed["username"]) == (
        task,
        "completed",
        "myuser",
    )
    status = kubectl.json("sky", "status", task)
    assert status["metadata"]["node_jobs"] == [
        f"training-job-{task}-node-{rank}" for rank in (0, 1)
    ]
    assert sorted(kubectl("sky", "logs", task).stdout.splitlines()) == sorted(
        done.stdout.splitlines()[1:]
    )

    assert kubectl("sky", "stop", task).returncode == 0
    eventually(lambda: kubectl("get", "pods", "-o", "name").stdout == "")
    done = kubectl("sky", "volumes", "delete", volume[1], "--force")
    assert done.returncode == 0, done.stderr
    eventually(lambda: kubectl("get", "pvc", "-o", "name").stdout == "")


@pytest.mark.usefixtures("images")
def test_multi_node_training_from_specification_completes(kubectl: Command) -> None:
    assert kubectl("apply", "-f", "-", stdin=MASTER).returncode == 0
    path = kubectl.write("task.yaml", seed.MULTI_NODE)
    in_image(kubectl)
    done = kubectl("sky", "submit", path, "--cpus", "100m", "--memory", "128Mi")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[1:]
    for node in range(4):
        assert f"node-{node} | pip (a stand-in): install transformers datasets" in lines
        for process in (2 * node, 2 * node + 1):
            assert f"node-{node} | process {process} of 8 met 8" in lines, done.stdout
