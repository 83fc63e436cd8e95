"""The timeline of a task whose pods really run."""

import json
from datetime import datetime

from tests.e2e.command import Command

TASK = """
name: train
num_nodes: 2
setup: sleep 2
run: sleep 3
"""


def test_timeline_has_the_phases_of_each_node(sky: Command) -> None:
    done = sky("submit", "-", "--id", "timed001", stdin=TASK)
    assert done.returncode == 0, done.stderr

    shown = sky("status", "timed001", "--timeline", "-o", "json")
    assert shown.returncode == 0, shown.stderr

    (task,) = json.loads(shown.stdout)["tasks"]
    assert [node["state"] for node in task["nodes"]] == ["completed", "completed"]

    for node in task["nodes"]:
        assert node["unknown"] == [], node
        *before, setup, run = node["phases"]
        assert (setup["phase"], run["phase"]) == ("setup", "run")
        begin = {"scheduling", "starting", "image", "meeting"}  # the last on a busy machine
        assert {phase["phase"] for phase in before} <= begin
        assert 2 <= seconds(setup) < 30 and 2 <= seconds(run) < 30
        ends = [phase["end"] for phase in node["phases"]]
        assert [phase["start"] for phase in node["phases"][1:]] == ends[:-1], "gaps"
    text = sky("status", "timed001", "--timeline").stdout
    assert "# run" in text and "\nnode-1  " in text


def seconds(phase: dict[str, str]) -> float:
    start, end = (datetime.fromisoformat(phase[name]) for name in ("start", "end"))
    return (end - start).total_seconds()
