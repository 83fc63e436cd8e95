"""The SKYPILOT_ variables of a task."""

import json

import pytest

from tests.e2e.command import Command

TASK = """
name: told
num_nodes: 2
resources: {image_id: "python:3.13-slim"}
envs: {SKYPILOT_TASK_ID: my run, SKYPILOT_USER: mallory}
run: |
  echo "$SKYPILOT_CLUSTER_INFO"
  echo "$SKYPILOT_TASK_ID/$SKYPILOT_USER/$SKYPILOT_JOB_RANK/$SKYPILOT_NUM_JOBS"
"""


@pytest.mark.practice_only
def test_submit_sets_skypilot_variables_and_ignores_reserved_names(sky: Command) -> None:
    """Nodes reach each other although SKYPILOT_TASK_ID is not a valid object name."""
    done = sky("submit", "-", "--id", "told0001", stdin=TASK)
    assert done.returncode == 0, done.stderr
    assert "envs.SKYPILOT_USER: warning: ignored: every node sets its own value" in done.stderr
    lines = [
        line.removeprefix("node-1 | ") for line in done.stdout.splitlines() if "node-1 |" in line
    ]
    assert json.loads(lines[0]) == {
        "cluster_name": "told-told0001",
        "cloud": "Kubernetes",
        "region": None,
        "zone": None,
    }
    assert lines[1] == "my run/tester/0/1"
