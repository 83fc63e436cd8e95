"""What is said and done about a cluster node that is gone for good, with a rank on it."""

import json
from typing import Any

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command, submitted
from tests.e2e.support import failure_texts
from tests.nodes.support import LOST_SOON, hosts, ranks, until_lines
from tests.polling import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

CAUSE = "its cluster node was lost"
RESOURCES = {"image_id": "python:3.13-slim", "cpus": "50m", "memory": "64Mi"}


def text(**fields: Any) -> str:
    return json.dumps({"name": "lost", "resources": RESOURCES, "config": LOST_SOON} | fields)


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_task_without_recovery_fails_and_names_rank_and_cause(
    sky: Command, faults: NodeFaults, backend: str
) -> None:
    script = sky.write("t.yaml", text(num_nodes=3, run="echo started; sleep 600"))
    process = sky.start("submit", script, "--id", "lostone1", "--backend", backend)
    until_lines(sky, "lostone1", "started", 3)
    faults.lose(hosts(sky, "lostone1")[1])

    _, err = process.communicate(timeout=240)
    assert process.returncode == 4, err
    assert f"node-1: {CAUSE}" in err
    for command, shown in failure_texts(sky, "lostone1").items():
        assert "node-1" in shown and CAUSE in shown, (command, shown)
    eventually(lambda: "running" not in {rank["state"] for rank in ranks(sky, "lostone1")})


def test_dev_pod_fails_and_names_cause(sky: Command, faults: NodeFaults) -> None:
    done = sky("dev", "-", stdin=text(run="exit 1"))
    assert done.returncode == 0, done.stderr
    task_id = submitted(done)
    (host,) = hosts(sky, task_id)
    faults.lose(host)
    waited = sky("wait", task_id, "--timeout", "240s")
    assert waited.returncode == 4, waited.stderr
    assert CAUSE in waited.stdout
    assert CAUSE in sky("doctor", task_id).stdout
