"""The real CRDs of Volcano, for one test at a time."""

from collections.abc import Iterator

import pytest

from tests.cluster import cache
from tests.e2e.command import ROOT, Command
from tests.e2e.support import crds_applied

CRDS = ROOT.parent / "shared" / "crds"
FILES = [CRDS / f"scheduling.volcano.sh_{plural}.yaml" for plural in ("podgroups", "queues")]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Run one test at a time: a CRD exists for all tests of a cluster or for none."""
    with cache.lock("volcano"):
        yield


@pytest.fixture
def volcano(kubectl: Command, alone: None) -> Iterator[None]:
    """The CRDs of Volcano without its controllers."""
    if not all(path.is_file() for path in FILES):
        pytest.skip("the definitions of Volcano are not beside the checkout")
    if kubectl("get", "crd/queues.scheduling.volcano.sh").returncode == 0:
        pytest.skip("the cluster has Volcano")
    with crds_applied(kubectl, *FILES):
        yield
