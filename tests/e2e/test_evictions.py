"""Commands with evicted and terminating pods, and pods over their limits."""

import json

import pytest

from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import PAIR, failure_texts, submit_pair
from tests.polling import eventually


def pod_of(kubectl: Command, task_id: str, rank: int) -> str:
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={task_id},node-idx={rank}")["items"]
    return str(pod["metadata"]["name"])


def test_commands_evicted_pod_name_node_and_reason(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    submit_pair(sky, "evict001")
    pod = pod_of(kubectl, "evict001", 1)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    done = kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    assert done.returncode == 0, done.stderr
    for command, text in failure_texts(sky, "evict001").items():
        assert "failed" in text and "node-1" in text, (command, text)
    assert sky("stop", "evict001").returncode == 0


@pytest.mark.practice_only
def test_commands_node_low_on_memory_report_evicted(
    sky: Command, kubectl: Command, cluster: Cluster
) -> None:
    if cluster.driver != "practice":
        pytest.skip("a real kubelet overwrites the status of a pod")
    submit_pair(sky, "evict002")
    message = "The node was low on resource: memory."
    status = {"phase": "Failed", "reason": "Evicted", "message": message}
    patch = ("patch", "pod", pod_of(kubectl, "evict002", 1), "--subresource=status", "--type=merge")
    assert kubectl(*patch, "-p", json.dumps({"status": status})).returncode == 0
    for command, text in failure_texts(sky, "evict002").items():
        assert "failed" in text and "node-1" in text, (command, text)
        reason = "the cluster node was low on memory" if command == "doctor" else "Evicted"
        assert reason in text, (command, text)
        assert "BackoffLimitExceeded" not in text, (command, text)
    assert sky("stop", "evict002").returncode == 0


def test_commands_pod_over_ephemeral_storage_report_evicted(sky: Command) -> None:
    limit = (
        "config: {kubernetes: {pod_config: {spec: {containers: [{name: main, resources: %s}]}}}}"
    )
    limits = limit % "{limits: {ephemeral-storage: 10Mi}}"
    script = "test $NODE_RANK = 0 || head -c 50000000 /dev/zero > /tmp/large; sleep 600"
    text = PAIR.replace("sleep 600", f"|\n  {script}") + limits
    done = sky("submit", "-", "--id", "evict003", "--detach", stdin=text)
    assert done.returncode == 0, done.stderr

    for command, output in failure_texts(sky, "evict003", "150s").items():
        assert "failed" in output and "node-1" in output, (command, output)
        reason = (
            "it wrote more to the local disk than its limit" if command == "doctor" else "Evicted"
        )
        assert reason in output, (command, output)
    assert sky("stop", "evict003").returncode == 0


@pytest.mark.practice_only
def test_commands_terminating_pod_is_named_until_deleted(sky: Command, kubectl: Command) -> None:
    script = "trap '' TERM; echo trapped; while true; do sleep 1; done"
    submit_pair(sky, "ending01", text=PAIR.replace("sleep 600", script))
    eventually(lambda: sky("logs", "ending01").stdout.count("trapped") == 2)
    pod = pod_of(kubectl, "ending01", 1)
    assert kubectl("delete", "pod", pod, "--wait=false", "--grace-period=60").returncode == 0

    (row,) = sky("list", "-o", "wide").stdout.splitlines()[1:]
    assert row.split()[2:4] == ["running", "2/2"]
    assert "node-1: Terminating" in row
    assert "running — node-1: Terminating" in sky("status", "ending01").stdout

    doctor = sky("doctor", "ending01").stdout
    assert "is running: its pod is being deleted" in doctor and "node-1: its pod" in doctor

    waited = sky("wait", "ending01", "--timeout", "1s")
    assert waited.returncode == 1
    assert "node-1: Terminating" in waited.stderr
    assert kubectl("delete", "pod", pod, "--grace-period=0", "--force").returncode == 0
    for command, text in failure_texts(sky, "ending01").items():
        assert ("its pod was deleted" if command == "doctor" else "PodNotFound") in text, text
    assert sky("stop", "ending01").returncode == 0
