"""List, status, wait, doctor and logs after a user has changed the objects of a task."""

import pytest

from tests.e2e.command import Command
from tests.e2e.support import failure_texts, submit_pair


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        pytest.param(
            ("delete", "job", "pair-{id}-node-1"), "JobNotFound", marks=pytest.mark.practice_only
        ),
        pytest.param(
            ("label", "job", "pair-{id}-node-1", "skypilot-task-"),
            "JobNotFound",
            marks=pytest.mark.practice_only,
        ),
        (("delete", "pod", "-l", "task-id={id},node-idx=1", "--grace-period=1"), "PodNotFound"),
    ],
    ids=["job deleted", "job without labels", "pod deleted"],
)
def test_commands_job_or_pod_deleted_report_same_reason(
    sky: Command, kubectl: Command, change: tuple[str, ...], cause: str
) -> None:
    submit_pair(sky, "pair0001")
    assert kubectl(*(word.replace("{id}", "pair0001") for word in change)).returncode == 0
    outputs = failure_texts(sky, "pair0001")
    doctors = {"JobNotFound": "its Job was deleted", "PodNotFound": "its pod is gone"}
    for command, text in outputs.items():
        assert "failed" in text, outputs
        assert "node-1" in text, outputs
        assert (doctors[cause] if command == "doctor" else cause) in text, outputs
        assert "BackoffLimitExceeded" not in text.replace("BackoffLimitExceeded: ", ""), outputs
        assert "wait for node-1" not in text, outputs
    status = sky.json("status", "pair0001")
    listed = sky.json("list")["tasks"][0]
    assert status["status"] == listed["status"] == "failed"
    assert sky.json("doctor", "pair0001")["status"] == "failed"
    assert sky("stop", "pair0001").returncode == 0
