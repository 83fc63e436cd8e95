"""A service whose replicas run on three cluster nodes, one of which is lost."""

import json
from typing import Any

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command
from tests.nodes.support import LOST_SOON, NODES
from tests.polling import eventually

WEB = {
    "name": "web",
    "service": {"readiness_probe": "/", "replicas": 3},
    "resources": {"image_id": "python:3.13-slim", "cpus": "50m", "memory": "64Mi", "ports": 8704},
    "config": LOST_SOON,
    "run": "exec python3 -m http.server 8704",
}


@pytest.fixture
def rights() -> tuple[str, ...]:
    return ("--with", "serve")


def ready_hosts(kubectl: Command) -> list[str]:
    """Return the cluster nodes of the replicas that are ready, and not being deleted."""
    pods = kubectl.json("get", "pods")["items"]
    kept = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return [pod["spec"]["nodeName"] for pod in kept if is_ready(pod)]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_replica_on_lost_cluster_node_is_replaced(
    sky: Command, kubectl: Command, faults: NodeFaults
) -> None:
    done = sky("serve", "up", sky.write("web.yaml", json.dumps(WEB)))
    assert done.returncode == 0, done.stderr
    assert set(ready_hosts(kubectl)) == NODES

    faults.lose("n2")
    eventually(lambda: len(ready_hosts(kubectl)) == 3 and "n2" not in ready_hosts(kubectl), 200)
    shown = sky("serve", "status", "web")
    assert "3 of 3 ready" in shown.stdout, shown.stdout
