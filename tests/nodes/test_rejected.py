"""A cluster node that rejects pods, which the task prefers all the same."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command
from tests.nodes.support import hosts
from tests.nodes.test_spread import SMALL

SYSCTL = "net.core.somaxconn"
PREFERRED = {
    "weight": 50,
    "preference": {
        "matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n3"]},
        ]
    },
}
POD = {
    "securityContext": {"sysctls": [{"name": SYSCTL, "value": "1024"}]},
    "affinity": {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]},
    },
}
TASK = {
    "name": "rejected",
    "resources": SMALL | {"job_recovery": {"max_restarts_on_errors": 5}},
    "config": {
        "kubernetes": {"pod_config": {"spec": POD}},
        "kubectl_sky": {"exclude_nodes": ["n2"]},
    },
    "run": f"cat /proc/sys/{SYSCTL.replace('.', '/')}",
}


@pytest.fixture
def willing(faults: NodeFaults) -> Iterator[None]:
    """Only n1 runs the pods of the task."""
    faults.allow_sysctls("n1", SYSCTL)
    yield
    faults.allow_sysctls("n1")


@pytest.mark.usefixtures("willing")
def test_node_starts_elsewhere_when_its_cluster_node_has_rejected_two_pods(sky: Command) -> None:
    done = sky("submit", "-", "--id", "rejected", stdin=json.dumps(TASK))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["1024"]
    assert "cluster node n3 rejected two of its pods; others are preferred now" in done.stderr
    assert hosts(sky, "rejected") == ["n1"]
