"""Commands with evicted pods, and pods over their limits."""

from tests.e2e.command import Command
from tests.e2e.support import PAIR, evict, failure_texts, submit_pair


def test_commands_evicted_pod_name_node_and_reason(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    submit_pair(sky, "evict001")
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=evict001,node-idx=1")["items"]
    evict(kubectl, namespace, pod["metadata"]["name"])
    for command, text in failure_texts(sky, "evict001").items():
        assert "failed" in text and "node-1" in text, (command, text)
    assert sky("stop", "evict001").returncode == 0


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
