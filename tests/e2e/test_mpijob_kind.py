"""MPIJobs on a cluster without the operator: submit, status and stop."""

from collections.abc import Iterator

import pytest

from tests.cluster import cache
from tests.cluster.target import Cluster
from tests.e2e.command import ROOT, Command
from tests.e2e.support import MPIJOB_CRD, objects, until_deleted, wait_for_controller

EXAMPLE = str(ROOT / "examples" / "21-mpijob.yaml")


@pytest.fixture
def cluster(practice_cluster: Cluster) -> Cluster:
    """The practice cluster: the real one has the operator in other tests."""
    return practice_cluster


@pytest.fixture
def kind(kubectl: Command) -> Iterator[None]:
    """Define the CRD without the operator, for one test at a time."""
    if not MPIJOB_CRD.is_file():
        pytest.skip("the definition of MPIJob is not beside the checkout")
    with cache.lock("mpijob"):
        made = kubectl("apply", "--server-side", "-f", str(MPIJOB_CRD))
        try:
            assert made.returncode == 0, made.stderr
            wait = ("wait", "--for=condition=Established", "--timeout=60s", "-f", str(MPIJOB_CRD))
            wait_for_controller(lambda: kubectl(*wait).returncode == 0)
            yield
        finally:
            kubectl("delete", "-f", str(MPIJOB_CRD), "--timeout=60s")


@pytest.mark.usefixtures("kind")
def test_submit_mpijob_without_operator_running_stays_pending(
    sky: Command, kubectl: Command
) -> None:
    done = sky("submit", EXAMPLE, "--dry-run=server")
    assert done.returncode == 0, done.stderr
    done = sky("submit", EXAMPLE, "-d", "--id", "mpikind1")
    assert done.returncode == 0, done.stderr
    again = sky("submit", EXAMPLE, "-d", "--id", "mpikind1")
    assert again.stdout.startswith("task/mpikind1 unchanged: mpi, 3 nodes")
    metadata = sky.json("status", "mpikind1")["metadata"]
    assert (metadata["backend"], len(metadata["nodes"])) == ("mpijob", 3)
    assert {node["state"] for node in metadata["nodes"]} == {"pending"}
    assert len(objects(kubectl, "mpikind1")) == 1, "only the ConfigMap exists"
    assert sky("stop", "mpikind1").stdout == "task/mpikind1 (mpi) stopped\n"
    until_deleted(kubectl, "mpikind1")
    wait_for_controller(lambda: kubectl("get", "mpijobs", "-o", "name").stdout == "")


def test_submit_mpijob_without_crd_is_cluster_error(sky: Command, kubectl: Command) -> None:
    with cache.lock("mpijob"):
        done = sky("submit", EXAMPLE, "--id", "mpikind2")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "error: backend mpijob needs the MPI operator, and the cluster does not serve mpijobs"
        " (kubeflow.org/v2beta1)\nhint: install it, or choose another backend: jobs, indexed\n"
    )
    assert objects(kubectl, "mpikind2") == []
