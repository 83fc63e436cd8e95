"""List, status, wait, doctor and logs after a user has deleted a pod of a task."""

from tests.e2e.command import Command
from tests.e2e.support import failure_texts, submit_pair


def test_commands_pod_deleted_report_same_reason(sky: Command, kubectl: Command) -> None:
    submit_pair(sky, "pair0001")
    delete = ("delete", "pod", "-l", "task-id=pair0001,node-idx=1", "--grace-period=1")
    assert kubectl(*delete).returncode == 0
    outputs = failure_texts(sky, "pair0001")
    for command, text in outputs.items():
        assert "failed" in text, outputs
        assert "node-1" in text, outputs
        assert ("its pod was deleted" if command == "doctor" else "PodNotFound") in text, outputs
        assert "BackoffLimitExceeded" not in text.replace("BackoffLimitExceeded: ", ""), outputs
        assert "wait for node-1" not in text, outputs
    status = sky.json("status", "pair0001")
    listed = sky.json("list")["tasks"][0]
    assert status["status"] == listed["status"] == "failed"
    assert sky.json("doctor", "pair0001")["status"] == "failed"
    assert sky("stop", "pair0001").returncode == 0
