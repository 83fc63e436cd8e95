"""What is said about a cluster node that is gone for good, with a dev pod on it."""

import json

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command, submitted
from tests.nodes.support import LOST_SOON, hosts

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

CAUSE = "its cluster node was lost"
RESOURCES = {"image_id": "python:3.13-slim", "cpus": "50m", "memory": "64Mi"}


def test_dev_pod_fails_and_names_cause(sky: Command, faults: NodeFaults) -> None:
    task = {"name": "lost", "resources": RESOURCES, "config": LOST_SOON, "run": "exit 1"}
    done = sky("dev", "-", stdin=json.dumps(task))
    assert done.returncode == 0, done.stderr
    task_id = submitted(done)
    (host,) = hosts(sky, task_id)
    faults.lose(host)
    waited = sky("wait", task_id, "--timeout", "240s")
    assert waited.returncode == 4, waited.stderr
    assert CAUSE in waited.stdout
    assert CAUSE in sky("doctor", task_id).stdout
