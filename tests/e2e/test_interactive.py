"""A task without `run`: submit returns when its nodes are ready, and they stay up until stop."""

import pytest

from tests.e2e.command import Command, submitted
from tests.polling import eventually


@pytest.mark.practice_only
def test_submit_without_run_keeps_nodes_running_until_stop(sky: Command, kubectl: Command) -> None:
    script = "name: dev\nnum_nodes: 2\nsetup: echo installed; echo x > /tmp/made\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    task_id = submitted(done)
    assert done.stdout.count("installed") == 2
    assert f"kubectl sky exec {task_id} -it -- bash" in done.stderr
    assert f"kubectl sky stop {task_id}" in done.stderr

    def status() -> str:
        tasks = sky.json("list")["tasks"]
        return next(str(item["status"]) for item in tasks if item["task_id"] == task_id)

    eventually(lambda: status() == "running")  # the kubelet tells of the start a moment later
    assert "kubectl sky exec" in sky("status", task_id).stdout
    printed = sky("exec", task_id, "--rank", "1", "--", "cat", "/tmp/made")
    assert (printed.returncode, printed.stdout) == (0, "x\n"), printed.stderr

    again = sky("submit", "-", "--id", task_id, stdin=script)
    assert again.returncode == 0, again.stderr
    assert "unchanged" in again.stdout

    assert sky("stop", task_id).returncode == 0
    kubectl("wait", "--for=delete", "pod", "-l", f"task-id={task_id}", "--timeout=20s")
    assert not kubectl("get", "pods", "-l", f"task-id={task_id}", "-o", "name").stdout
