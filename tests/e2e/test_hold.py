"""Failed containers that are held: the client fails at once, and exec gets in."""

import json

from tests.e2e.command import Command
from tests.polling import eventually

PAIR = """
name: held
num_nodes: 2
resources: {cpus: 100m, memory: 64Mi, image_id: 'busybox:1.36'}
config: {kubectl_sky: {hold_on_failure: %s}}
run: |
  [ $SKYPILOT_NODE_RANK = 1 ] || exec sleep 300
  echo left > /kubectl-sky/trace
  exit 7
"""
SETUP = """
name: unready
resources: {image_id: 'busybox:1.36'}
setup: exit 3
run: echo never
"""


def container(kubectl: Command, task_id: str) -> dict[str, object]:
    pods = json.loads(kubectl("get", "pods", "-l", f"task-id={task_id}", "-o", "json").stdout)
    (pod,) = (item for item in pods["items"] if "node-0" not in item["metadata"]["name"])
    (status,) = (item for item in pod["status"]["containerStatuses"] if item["name"] == "main")
    state: dict[str, object] = status["state"]
    return state


def test_submit_failed_node_is_held_for_exec_until_sigterm(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--id", "heldpair", stdin=PAIR % "10m")
    assert done.returncode == 4, done.stderr
    assert "node-1: exit code 7; the container is held until " in done.stderr

    line = "failed (exit 7), held for 10m: kubectl sky exec heldpair --rank 1 -it -- "
    assert line in done.stdout

    (row,) = (row for row in sky("list").stdout.splitlines() if row.startswith("heldpair"))
    assert "failed (held 9m" in row

    task = sky.json("status", "heldpair")
    assert task["status"] == "failed"
    assert task["metadata"]["nodes"][1]["held_until"]

    inside = sky("exec", "heldpair", "--rank", "1", "--", "cat", "/kubectl-sky/trace")
    assert inside.stdout == "left\n", inside.stderr

    eventually(lambda: _is_stopped(sky))  # the other node, as without a hold
    assert "its failed container is held until" in sky("doctor", "heldpair").stdout
    assert sky("logs", "heldpair", "-f", "--rank", "1").returncode == 4
    assert "running" in container(kubectl, "heldpair")

    sky("exec", "heldpair", "--rank", "1", "--", "kill", "-TERM", "1")
    assert eventually(lambda: _terminated(kubectl, "heldpair"))["exitCode"] == 7

    eventually(lambda: "held_until" not in sky.json("status", "heldpair")["metadata"]["nodes"][1])


def _is_stopped(sky: Command) -> bool:
    node = sky.json("status", "heldpair")["metadata"]["nodes"][0]
    return bool(node["detailed_status"] == "stopped")


def _terminated(kubectl: Command, task_id: str) -> dict[str, object]:
    state = container(kubectl, task_id)
    assert "terminated" in state, state
    ended = state["terminated"]
    assert isinstance(ended, dict)
    return ended


def test_submit_failed_setup_is_held_for_its_time(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--id", "heldset1", "--hold", "15s", stdin=SETUP)
    assert done.returncode == 4, done.stderr
    assert "setup failed (exit 3), held for 15s: kubectl sky exec heldset1 -it -- " in done.stdout
    assert eventually(lambda: _terminated(kubectl, "heldset1"))["exitCode"] == 3
    task = sky.json("status", "heldset1")
    assert (task["status"], task["metadata"]["detailed_status"]) == ("failed", "failed_setup")
    assert "held_until" not in task["metadata"]["nodes"][0]
