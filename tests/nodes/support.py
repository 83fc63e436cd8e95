"""What several tests on three cluster nodes look at."""

from typing import Any

from tests.e2e.command import Command
from tests.polling import eventually

NODES = {"n1", "n2", "n3"}
# By default, Kubernetes marks the pods of a cluster node that does not respond after 5 minutes.
_UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 5,
}
LOST_SOON = {"kubernetes": {"pod_config": {"spec": {"tolerations": [_UNREACHABLE]}}}}


def ranks(sky: Command, task_id: str) -> list[dict[str, Any]]:
    """Return what `status` says of each rank."""
    rows: list[dict[str, Any]] = sky.json("status", task_id)["metadata"]["nodes"]
    return rows


def hosts(sky: Command, task_id: str) -> list[str]:
    """Return the cluster nodes of the ranks, in their order."""
    return [rank["host"] for rank in ranks(sky, task_id)]


def until_lines(sky: Command, task_id: str, text: str, number: int) -> None:
    """Wait until as many lines of the logs contain a text."""
    eventually(lambda: sky("logs", task_id).stdout.count(text) >= number, 90)


def drain(kubectl: Command, host: str) -> None:
    """Evict the pods of a cluster node, which gets no others."""
    done = kubectl("drain", host, "--force", "--ignore-daemonsets", "--delete-emptydir-data")
    assert done.returncode == 0, done.stderr
