"""A foreign task with the labels of a pipeline or a group."""

import time
from typing import Any

import pytest

from tests.attacks.foreign import FOREIGN_POD, copied_metadata, create
from tests.e2e.command import Command
from tests.e2e.support import until_running

ID = "whole001"
STAGES = """
name: whole
execution: parallel
---
name: one
resources: {image_id: 'busybox:1.36'}
run: echo from the real task; sleep 300
---
name: two
resources: {image_id: 'busybox:1.36'}
run: echo from the real task; sleep 300
"""


def join(kubectl: Command, name: str, **annotations: str) -> None:
    """Create a task with another id that claims to be the first stage."""
    jobs = kubectl.json("get", "jobs", "-l", "kubectl-sky/stage=1")["items"]
    like = jobs[0]["metadata"]["name"]
    metadata: dict[str, Any] = copied_metadata(kubectl, "job", like, **{"task-id": "b2222222"})
    metadata["annotations"] |= {f"kubectl-sky/{key}": text for key, text in annotations.items()}
    template = {"metadata": {"labels": metadata["labels"]}, "spec": FOREIGN_POD}
    spec = {"backoffLimit": 0, "template": template}
    create(
        kubectl,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, **metadata},
            "spec": spec,
        },
    )


@pytest.mark.practice_only
def test_foreign_task_with_labels_of_pipeline_is_ignored(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--id", ID, "--detach", stdin=STAGES)
    assert done.returncode == 0, done.stderr
    (first, second) = (task["task_id"] for task in sky.json("status", ID)["tasks"])
    until_running(sky, first)
    time.sleep(1.1)
    # It marks all real tasks as auxiliary: these are stopped when the primary tasks finish.
    join(kubectl, "evil", **{"auxiliary-stages": "1,2", "execution": "parallel", "stages": "2"})
    shown = sky("status", ID)
    assert shown.returncode == 0, shown.stderr
    assert "warning: task b2222222 is ignored" in shown.stderr
    whole = sky.json("status", ID)
    assert [task["task_id"] for task in whole["tasks"]] == [first, second]
    assert whole["execution"] == "parallel"
    waited = sky("wait", ID, "--continue", "--timeout", "2s")
    assert "because the primary tasks have finished" not in waited.stderr
    assert sorted(task["task_id"] for task in sky.json("list")["tasks"]) == sorted(
        [first, second, "b2222222"]
    )
    assert "foreign" not in sky("logs", ID).stdout
    assert sky("stop", ID, "--yes").returncode == 0
    left = [item["metadata"]["name"] for item in kubectl.json("get", "jobs")["items"]]
    assert left == ["evil"]
