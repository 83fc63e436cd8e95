"""Unavailable backends: the messages, and that no objects are left."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster import cache
from tests.e2e.command import Command
from tests.e2e.support import MPIJOB_CRD, crd_installed, objects

TASK = "num_nodes: 4\nresources: {cpus: 100m, memory: 32Mi}\nrun: sleep 300\n"


@pytest.fixture
def definition(kubectl: Command) -> Iterator[dict[str, Any]]:
    """The CRD of MPIJob, for one test at a time."""
    if not MPIJOB_CRD.is_file():
        pytest.skip("the definition of MPIJob is not beside the checkout")
    with cache.lock("mpijob"):
        if kubectl("get", "mpijobs").returncode == 0:
            pytest.skip("the cluster has the MPI operator")
        yield yaml.safe_load(MPIJOB_CRD.read_text())


@pytest.mark.practice_only
def test_backend_crd_with_other_version_is_cluster_error(
    sky: Command, kubectl: Command, definition: dict[str, Any]
) -> None:
    old = copy.deepcopy(definition)
    old["spec"]["versions"][0]["name"] = "v1"
    with crd_installed(kubectl, old):
        done = sky("submit", "-", "--backend", "mpijob", "--id", "oldone01", stdin=TASK)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "error: the cluster serves mpijobs only as kubeflow.org/v1, but kubeflow.org/v2beta1 is"
        " required\nhint: update their controller, or choose another backend\n"
    )
    assert objects(kubectl, "oldone01") == []


@pytest.mark.practice_only
def test_backend_outdated_controller_is_cluster_error(
    sky: Command, kubectl: Command, definition: dict[str, Any]
) -> None:
    old = copy.deepcopy(definition)
    properties = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del properties["spec"]["properties"]["runLauncherAsWorker"]
    with crd_installed(kubectl, old):
        done = sky("submit", "-", "--backend", "mpijob", "--id", "oldone02", stdin=TASK)
    assert (done.returncode, done.stdout) == (3, "")
    assert "runLauncherAsWorker" in done.stderr, done.stderr
    assert objects(kubectl, "oldone02") == []
