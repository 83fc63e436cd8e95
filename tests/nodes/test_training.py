"""A training program with checkpoints that loses a rank, by a signal or with its cluster node."""

import subprocess

import pytest

from tests.cluster.images import JAX, load, make_jax
from tests.cluster.node_faults import NodeFaults
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.nodes.support import drain, hosts, until_lines
from tests.nodes.training import check_output, write_task

ID = "training"


@pytest.fixture
def backend() -> str:
    return "jobs"


@pytest.fixture
def pause() -> float:
    """Seconds after each step."""
    return 0.25


@pytest.fixture
def image() -> str:
    return "python:3.13-slim"


@pytest.fixture
def jax(three_nodes: Cluster) -> None:
    load(three_nodes, make_jax())


@pytest.fixture
def training(sky: Command, backend: str, pause: float, image: str) -> subprocess.Popen[str]:
    """The submit that follows the task, which has written a checkpoint."""
    assert sky("config", "set", "node_lost_after", "20").returncode == 0
    created = sky("volumes", "create", "checkpoints", "1Gi", "--access-modes", "RWX")
    assert created.returncode == 0, created.stderr
    flags = ("--id", ID, "--backend", backend)
    process = sky.start("submit", sky.write("t.yaml", write_task(pause, image)), *flags)
    until_lines(sky, ID, "| step 12 ", 3)
    return process


def test_training_with_killed_rank_resumes_at_its_checkpoint(
    sky: Command, training: subprocess.Popen[str]
) -> None:
    killed = sky("exec", ID, "--rank", "1", "--", "pkill", "-KILL", "-f", "train.py")
    assert killed.returncode == 0, killed.stderr
    out, err = training.communicate(timeout=120)
    assert training.returncode == 0, err
    check_output(out, attempts=2)


def test_training_on_drained_cluster_node_resumes_at_its_checkpoint(
    sky: Command, kubectl: Command, faults: NodeFaults, training: subprocess.Popen[str]
) -> None:
    host = hosts(sky, ID)[1]
    drain(kubectl, host)
    check_resumed(sky, training, host)


@pytest.mark.faults
@pytest.mark.usefixtures("jax")
@pytest.mark.parametrize(("image", "pause"), [(JAX.name, 1.5)])
def test_training_with_jax_resumes_at_its_checkpoint(
    sky: Command, kubectl: Command, faults: NodeFaults, training: subprocess.Popen[str]
) -> None:
    """JAX lets a rank that is drained go on until it is killed, after 30 seconds."""
    killed = sky("exec", ID, "--rank", "1", "--", "pkill", "-KILL", "-f", "train.py")
    assert killed.returncode == 0, killed.stderr
    until_lines(sky, ID, "| starts at 10", 3)
    host = hosts(sky, ID)[2]
    drain(kubectl, host)
    check_resumed(sky, training, host)


@pytest.mark.faults
def test_training_on_tainted_cluster_node_resumes_at_its_checkpoint(
    sky: Command, kubectl: Command, faults: NodeFaults, training: subprocess.Popen[str]
) -> None:
    host = hosts(sky, ID)[1]
    tainted = kubectl("taint", "node", host, "example.com/repair=true:NoExecute")
    assert tainted.returncode == 0, tainted.stderr
    check_resumed(sky, training, host)


@pytest.mark.faults
@pytest.mark.parametrize("pause", [1.0])  # a kubelet looks at its disk every 10 seconds
def test_training_on_cluster_node_with_full_disk_resumes_at_its_checkpoint(
    sky: Command, faults: NodeFaults, training: subprocess.Popen[str]
) -> None:
    host = hosts(sky, ID)[1]
    faults.fill_disk(host)
    try:
        check_resumed(sky, training, host)
    finally:
        faults.empty_disk(host)


@pytest.mark.faults
@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_training_on_lost_cluster_node_resumes_at_its_checkpoint(
    sky: Command, faults: NodeFaults, training: subprocess.Popen[str]
) -> None:
    """The submit that follows removes the pod, whose rank then runs elsewhere."""
    host = hosts(sky, ID)[1]
    faults.lose(host)
    check_resumed(sky, training, host)


def check_resumed(sky: Command, training: subprocess.Popen[str], lost: str) -> None:
    """Check that the task completes without a cluster node on which it ran."""
    out, err = training.communicate(timeout=240)
    assert training.returncode == 0, err
    check_output(out, attempts=2)
    assert lost not in hosts(sky, ID)
