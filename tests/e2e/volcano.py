"""The real CRDs of Volcano, for one test at a time."""

from collections.abc import Iterator

import pytest

from tests.cluster import cache
from tests.e2e.command import ROOT, Command

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
    files = [word for path in FILES for word in ("-f", str(path))]
    if kubectl("get", *files, "--ignore-not-found", "-o", "name").stdout:
        pytest.skip("the cluster has Volcano")
    made = kubectl("apply", "--server-side", *files)
    try:
        assert made.returncode == 0, made.stderr
        waited = kubectl("wait", "--for=condition=Established", "--timeout=60s", *files)
        assert waited.returncode == 0, waited.stderr
        yield
    finally:
        kubectl("delete", *files, "--timeout=60s")
