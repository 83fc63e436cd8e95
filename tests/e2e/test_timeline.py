"""The timeline of a task whose pods really run."""

import json
from datetime import datetime
from typing import Any

from tests.e2e.command import Command
from tests.e2e.support import submit
from tests.polling import eventually

TASK = """
name: train
num_nodes: 2
setup: sleep 2
run: sleep 3
"""

IN_SETUP = """
name: train
num_nodes: 2
setup: |
  until [ -e /kubectl-sky/go ]; do sleep 0.2; done
  sleep 1
  printf 'no newline'
run: |
  echo 'kubectl-sky: setup begins'
  sleep 600
"""


def test_status_and_timeline_of_running_nodes_tell_setup_until_it_ends(sky: Command) -> None:
    submit(sky, IN_SETUP, "setup001")

    def read_nodes() -> list[dict[str, str]]:
        return list(sky.json("status", "setup001")["metadata"]["nodes"])

    def read_phases() -> list[dict[str, Any]]:
        """Return the last two phases of the first node."""
        (task,) = sky.json("status", "setup001", "--timeline")["tasks"]
        return list(task["nodes"][0]["phases"][-2:])

    eventually(lambda: all("setup_since" in node for node in read_nodes()))
    assert {node["state"] for node in read_nodes()} == {"running"}
    assert "running (setup " in sky("status", "setup001").stdout
    assert " running " in sky("list").stdout
    assert (read_phases()[-1]["phase"], read_phases()[-1]["end"]) == ("setup", None)

    done = sky("exec", "setup001", "--all-ranks", "--", "touch", "/kubectl-sky/go")
    assert done.returncode == 0, done.stderr
    eventually(lambda: not any("setup_since" in node for node in read_nodes()))
    setup, run = read_phases()
    assert (setup["phase"], run["phase"], run["end"]) == ("setup", "run", None)
    assert seconds(setup) >= 1


def test_setup_with_a_long_log_is_a_part_of_run(sky: Command) -> None:
    submit(sky, "name: train\nsetup: seq 100000\nrun: sleep 600\n", "noise001")
    eventually(lambda: sky("logs", "noise001", "--grep", "run begins").stdout)
    assert "setup_since" not in sky.json("status", "noise001")["metadata"]["nodes"][0]
    (task,) = sky.json("status", "noise001", "--timeline")["tasks"]
    *before, last = [phase["phase"] for phase in task["nodes"][0]["phases"]]
    assert (last, "setup" in before) == ("run", False)


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
