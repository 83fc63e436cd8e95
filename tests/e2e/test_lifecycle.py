"""List, status, logs, wait and stop, for people and for scripts."""

import json
import re
import signal
import time
from typing import Any

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit, until_deleted
from tests.polling import eventually

QUICK = "name: quick\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
SLOW = "name: slow\nresources: {image_id: 'busybox:1.36'}\nrun: echo begun; sleep 300\n"


@pytest.mark.practice_only
def test_list_without_tasks_prints_no_tasks_found(sky: Command, namespace: str) -> None:
    done = sky("list")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"No tasks found in namespace {namespace}.\n"
    assert sky.json("list")["tasks"] == []
    assert sky("list", "-o", "name").stdout == ""


@pytest.mark.practice_only
def test_list_shows_newest_task_first_in_every_format(sky: Command, namespace: str) -> None:
    for task_id in ("first001", "second01"):
        submit(sky, QUICK, task_id)
        assert sky("wait", task_id, "--timeout", "60s").returncode == 0
        time.sleep(1)  # timestamps have a resolution of a second
    header, *rows = sky("list").stdout.splitlines()
    assert header.split() == ["ID", "NAME", "STATUS", "NODES", "AGE"]
    assert [row.split()[:4] for row in rows] == [
        ["second01", "quick", "completed", "1/1"],
        ["first001", "quick", "completed", "1/1"],
    ]
    assert sky("list", "-o", "name").stdout == "task/second01\ntask/first001\n"
    wide = sky("list", "-o", "wide").stdout.splitlines()[0].split()
    assert wide[-2:] == ["UPDATED", "NOTE"]
    details = sky("list", "--details").stdout.splitlines()
    assert details[0].split()[-3:] == ["NAMESPACE", "USER", "JOBS"]
    assert details[1].split()[-3:] == [namespace, "tester", "quick-second01"]
    everywhere = sky("list", "-A").stdout.splitlines()
    assert any(row.split()[0] == "second01" and namespace in row for row in everywhere[1:])
    listed = sky.json("list")["tasks"]
    assert [task["task_id"] for task in listed] == ["second01", "first001"]
    for task in listed:
        for time_of in ("created_at", "updated_at"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", task[time_of])


def test_status_mixed_nodes_counts_states_and_reports_failed(sky: Command) -> None:
    script = """
name: mixed
num_nodes: 3
resources: {image_id: "busybox:1.36"}
run: |
  test $NODE_RANK = 0 && exit 0
  test $NODE_RANK = 1 && exit 5
  sleep 300
"""
    submit(sky, script, "mixed001")  # detached: a client would stop the third node

    def mixed() -> Any:
        task = sky.json("status", "mixed001")
        states = ("succeeded", "failed", "running", "pending")
        assert [task["metadata"][f"{state}_nodes"] for state in states] == [1, 1, 1, 0]
        return task

    found = eventually(mixed, 90)
    assert found["status"] == "failed"
    assert found["metadata"]["node_jobs"] == [f"mixed-mixed001-node-{rank}" for rank in range(3)]
    output = sky("status", "mixed001").stdout
    assert "failed — node-1: exit code 5" in output
    assert "3 (1 running, 1 failed, 1 completed)" in output
    assert sky("stop", "mixed001").returncode == 0


@pytest.mark.practice_only
def test_status_accepts_id_prefix_and_name_and_refuses_ambiguous_prefix(sky: Command) -> None:
    submit(sky, QUICK, "abcdefgh")
    submit(sky, SLOW, "abcxyzzz")
    for word in ("abcdefgh", "abcd", "quick", "task/abcdefgh"):
        assert sky("status", word, "-o", "name").stdout == "task/abcdefgh\n"
    done = sky("status", "abc")
    assert done.returncode == 2
    assert '"abc" matches 2 tasks: ' in done.stderr
    done = sky("status", "nothing1")
    assert done.returncode == 2
    assert 'task "nothing1" not found in namespace' in done.stderr
    assert sky("stop", "slow").returncode == 0


def test_stop_deletes_all_objects_and_prints_number_of_tasks(
    sky: Command, kubectl: Command
) -> None:
    script = SLOW.replace("run:", "num_nodes: 2\nsecrets: {T: x}\nrun:")
    submit(sky, script, "stopme01")
    submit(sky, SLOW, "stopme02")
    done = sky("stop", "stopme01")
    assert (done.returncode, done.stderr) == (0, "Stopped 1 task\n")
    assert done.stdout == "task/stopme01 (slow) stopped\n"
    until_deleted(kubectl, "stopme01")
    asked = sky("stop", "--all")
    assert asked.returncode == 2, "stdin is not a terminal"
    answer = sky("stop", "--all", "--yes", "-o", "json")
    assert json.loads(answer.stdout) == {
        "apiVersion": "kubectl-sky/v1",
        "kind": "Stopped",
        "count": 1,
        "status": "stopped",
        "message": "Stopped 1 task",
        "task_ids": ["stopme02"],
    }
    until_deleted(kubectl, "stopme02")
    assert sky("stop").returncode == sky("stop", "x", "--all").returncode == 2


@pytest.mark.practice_only
def test_wait_several_tasks_reports_failure_and_timeout_exits_with_1(sky: Command) -> None:
    submit(sky, QUICK, "good0001")
    submit(sky, QUICK.replace("echo done", "exit 3"), "badd0001")
    submit(sky, SLOW, "slow0001")
    done = sky("wait", "good0001", "badd0001", "--timeout", "90s")
    assert done.returncode == 4
    assert done.stdout.splitlines() == [
        "task/good0001 (quick) completed",
        "task/badd0001 (quick) failed: node-0: exit code 3",
    ]
    late = sky("wait", "slow0001", "--timeout", "1s")
    assert late.returncode == 1
    assert "gave up waiting for task slow0001 (slow), which is " in late.stderr
    assert sky("stop", "--all", "-y").returncode == 0


LINES = """
num_nodes: 2
resources: {image_id: "busybox:1.36"}
run: |
  for i in 1 2 3; do echo "line $i of $NODE_RANK"; sleep 0.3; done
  printf 'no newline'
"""


def test_logs_several_nodes_with_rank_tail_since_and_timestamps(sky: Command) -> None:
    submit(sky, LINES, "logs0001")
    done = sky("logs", "logs0001", "-f")
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        mine = [line for line in done.stdout.splitlines() if line.startswith(f"node-{rank} | ")]
        texts = [*(f"line {i} of {rank}" for i in (1, 2, 3)), "no newline"]
        assert mine == [f"node-{rank} | {text}" for text in texts]
    again = sky("logs", "logs0001")
    assert again.stdout.splitlines() == sorted(done.stdout.splitlines(), key=lambda line: line[:6])
    one = sky("logs", "logs0001", "--rank", "1", "--tail", "2").stdout
    assert one == "node-1 | line 3 of 1\nnode-1 | no newline\n"
    stamped = sky("logs", "logs0001", "--rank", "0", "--timestamps").stdout
    assert re.match(r"node-0 \| \d{4}-\d\d-\d\dT[\d:.]+Z line 1 of 0\n", stamped)
    assert sky("logs", "logs0001", "--since", "1h").stdout == again.stdout
    wrong = sky("logs", "logs0001", "--rank", "7")
    assert wrong.returncode == 2
    assert "task logs0001 has no rank 7\nhint: it has ranks 0 to 1" in wrong.stderr


def test_submit_long_log_is_complete_and_in_order(sky: Command) -> None:
    # a container runtime drops output not written within 2 s after exit, so on a busy machine
    # a long output at the very end would be cut for every client
    script = "run: |\n  python3 -c 'for i in range(100000): print(i)'\n  sleep 5\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [str(i) for i in range(100_000)]


@pytest.mark.practice_only
def test_submit_long_line_is_printed_unbroken(sky: Command) -> None:
    script = """
run: |
  python3 -c 'print("x" * 200000)'
  printf 'a\\rb\\n'
"""
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1] == "x" * 200_000


@pytest.mark.practice_only
def test_logs_pending_task_prints_reason_and_times_out(sky: Command) -> None:
    submit(sky, SLOW, "never001", "--cpus", "500")
    done = sky("logs", "never001")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("node-0 has not started")
    late = sky("logs", "never001", "-f", "--wait-timeout", "3s")
    assert late.returncode == 1
    assert "slow: pending: 1/1 cluster nodes have insufficient cpu: a node " in late.stderr
    assert sky("stop", "never001").returncode == 0


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "resources: {image_id: 'localhost:1/none:1'}\nrun: a\n",
            r"pending: .*(?:ImagePull|registry)",
        ),
        ("volumes: {/data: nothing}\nrun: a\n", r'pending: PVC "nothing" not found'),
    ],
    ids=["image", "claim"],
)
def test_submit_pending_node_prints_reason(sky: Command, script: str, message: str) -> None:
    running = sky.start("submit", sky.write("t.yaml", script))
    assert running.stderr
    assert any(re.search(message, line) for line in running.stderr)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
