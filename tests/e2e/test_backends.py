"""Every backend: submit, status, logs, wait and stop print the same lines."""

from datetime import datetime

import pytest

from tests.e2e.command import Command, submitted
from tests.e2e.support import FAILING, GRACE, seconds_between_failures, until_deleted
from tests.polling import eventually


@pytest.mark.parametrize(
    ("backend", "image"),
    [
        ("jobs", "python:3.13-slim"),
        ("indexed", "busybox:1.36"),
    ],
)
def test_submit_multi_node_task_nodes_reach_each_other(
    sky: Command, backend: str, image: str
) -> None:
    script = """
name: ring
num_nodes: 3
run: |
  test "$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((NODE_RANK + 1))p")" = "$POD_IP"
  test "$MASTER_ADDR" = "$(echo "$SKYPILOT_NODE_IPS" | sed -n 1p)" &&
  echo "$SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
"""
    done = sky("submit", "-", "--backend", backend, "--image", image, stdin=script)
    assert done.returncode == 0, done.stderr

    expected = [f"node-{rank} | {rank} of 3" for rank in range(3)]
    assert sorted(done.stdout.splitlines()[1:]) == expected

    usual = ("ring: ", "practice cluster: ")  # a slow start, and that images are not pulled
    assert [line for line in done.stderr.splitlines() if not line.startswith(usual)] == []

    task_id = submitted(done)
    assert sky("logs", task_id, "--by-node").stdout.splitlines() == expected
    assert sky("wait", task_id).stdout == f"task/{task_id} (ring) completed\n"

    metadata = sky.json("status", task_id)["metadata"]
    assert [node["state"] for node in metadata["nodes"]] == ["completed"] * 3
    assert metadata["backend"] == backend

    again = sky("submit", "-", "--id", task_id, "--backend", backend, "--image", image, "-d")
    assert again.returncode == 2, "no file"

    again = sky(
        "submit", "-", "--id", task_id, "--backend", backend, "--image", image, stdin=script
    )
    assert again.stdout.startswith(f"task/{task_id} unchanged: ring, 3 nodes")


def test_submit_jobs_backend_failed_node_stops_remaining_nodes(
    sky: Command, kubectl: Command
) -> None:
    """Each node is a separate Job, so no controller in the cluster stops the others."""
    done = sky("submit", "-", "--backend", "jobs", "--id", "failing2", stdin=FAILING)
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("node-2 failed: exit code 7; the other nodes are being stopped\n") == 1
    assert "task failing2 (three) failed: node-2: exit code 7" in done.stderr

    output = sky("status", "failing2").stdout
    assert "failed — node-2: exit code 7" in output
    assert output.count("Stopped") == 3

    metadata = sky.json("status", "failing2")["metadata"]
    assert [node["detailed_status"] for node in metadata["nodes"]] == [
        "stopped", "stopped", "failed", "stopped"
    ]  # fmt: skip
    assert "node-2 | rank 2 of 4" in sky("logs", "failing2").stdout.splitlines()
    assert seconds_between_failures(kubectl, "failing2") < GRACE

    verdict = sky("doctor", "failing2").stdout
    assert "activeDeadlineSeconds" not in verdict

    again = sky("submit", "-", "--backend", "jobs", "--id", "failing2", stdin=FAILING)
    assert again.stdout.startswith("task/failing2 unchanged")
    assert sky("stop", "failing2").returncode == 0

    until_deleted(kubectl, "failing2")


def test_submit_indexed_backend_failed_node_stops_remaining_nodes(
    sky: Command, kubectl: Command
) -> None:
    done = sky("submit", "-", "--backend", "indexed", "--id", "failing1", stdin=FAILING)
    assert done.returncode == 4, done.stderr
    assert "node-2 failed: exit code 7; the other nodes are being stopped\n" in done.stderr
    assert "task failing1 (three) failed: node-2: exit code 7" in done.stderr

    kubectl("wait", "--for=condition=Failed", "--timeout=60s", "job/three-failing1")
    job = kubectl.json("get", "job", "three-failing1")
    (failed,) = (c for c in job["status"]["conditions"] if c["type"] == "Failed")
    pods = kubectl.json("get", "pods", "-l", "task-id=failing1")["items"]
    (pod,) = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    took = datetime.fromisoformat(failed["lastTransitionTime"]) - datetime.fromisoformat(ended)
    assert took.total_seconds() < GRACE, "the Job fails soon after its last pod"

    output = sky("status", "failing1").stdout
    assert "failed — node-2: exit code 7" in output
    assert output.count("Stopped") == 3
    assert sky("wait", "failing1").stdout == ("task/failing1 (three) failed: node-2: exit code 7\n")


ARRAY = """
name: sweep
resources: {image_id: "busybox:1.36"}
run: |
  echo "job $SKYPILOT_JOB_RANK of $SKYPILOT_NUM_JOBS, rank $SKYPILOT_NODE_RANK of $NUM_NODES"
  test $SKYPILOT_JOB_RANK != 3
"""


def test_submit_array_with_failed_task_reports_every_index(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--array", "0,3,7-9%2", "--id", "array001", stdin=ARRAY)
    assert done.returncode == 4, done.stderr

    first, *lines = done.stdout.splitlines()
    assert first.startswith("task/array001 submitted: sweep, 5 tasks of one node, 2 at once")

    numbers = (0, 3, 7, 8, 9)
    expected = [f"index-{number} | job {number} of 5, rank 0 of 1" for number in numbers]
    assert sorted(lines) == expected
    assert "task array001 (sweep) failed: 1 of 5 failed, first index-3: exit code 1" in (
        done.stderr
    )

    metadata = sky.json("status", "array001")["metadata"]
    assert (metadata["succeeded_nodes"], metadata["failed_nodes"]) == (4, 1)
    assert [node["index"] for node in metadata["nodes"]] == list(numbers)
    assert sky("list").stdout.splitlines()[1].split()[:4] == ["array001", "sweep", "failed", "4/5"]
    assert sky("logs", "array001", "--by-node").stdout.splitlines() == expected, (
        "all logs, not only the first batch"
    )
    assert sky("logs", "array001", "--rank", "7").stdout == f"{expected[2]}\n"
    assert sky("wait", "array001").returncode == 4

    again = sky("submit", "-", "--array", "0,3,7-9%2", "--id", "array001", "-d", stdin=ARRAY)
    assert again.stdout.startswith("task/array001 unchanged")
    assert sky("stop", "array001").returncode == 0

    until_deleted(kubectl, "array001")


@pytest.mark.practice_only
def test_submit_array_with_parallelism_limits_running_tasks(sky: Command, kubectl: Command) -> None:
    script = "resources: {image_id: 'busybox:1.36'}\nrun: sleep 300\n"
    done = sky("submit", "-", "--array", "3-7%2", "--id", "array002", "-d", stdin=script)
    assert done.returncode == 0, done.stderr

    def counts() -> tuple[int, int]:
        metadata = sky.json("status", "array002")["metadata"]
        return metadata["running_nodes"], metadata["pending_nodes"]

    eventually(lambda: counts() == (2, 3), 90)
    pods = kubectl.json("get", "pods", "-l", "task-id=array002")["items"]
    assert len(pods) == 2
    shown = ("sh", "-c", "echo $SKYPILOT_JOB_RANK of $SKYPILOT_NUM_JOBS, $SKYPILOT_NODE_IPS")
    done = sky("exec", "array002", "--all-ranks", "--", *shown)
    addresses = sorted(pod["status"]["podIP"] for pod in pods)
    output = sorted(done.stdout.splitlines())
    assert [line.partition(", ")[0] for line in output] == ["index-3 | 3 of 5", "index-4 | 4 of 5"]
    assert sorted(line.partition(", ")[2] for line in output) == addresses, (
        "each task has its own address"
    )
    assert sky("stop", "array002").returncode == 0
    until_deleted(kubectl, "array002")


def test_sweep_gives_each_task_its_values_also_by_names_of_the_entry_script(sky: Command) -> None:
    task = 'name: sizes\nresources: {cpus: 0.1}\nrun: echo "child=$child dir=$dir"\n'
    flags = ("--sweep", "child=a,b", "--sweep", "dir=1..2", "--id", "swept001")

    done = sky("submit", "-", *flags, stdin=task)

    assert done.returncode == 0, done.stderr
    printed = {line.partition(" | ")[2] for line in done.stdout.splitlines() if " | " in line}
    assert printed == {"child=a dir=1", "child=b dir=1", "child=a dir=2", "child=b dir=2"}
