"""List, status, logs, wait and stop, for people and for scripts."""

import json
import re
import signal

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit, until_deleted

QUICK = "name: quick\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
SLOW = "name: slow\nresources: {image_id: 'busybox:1.36'}\nrun: echo begun; sleep 300\n"


@pytest.mark.practice_only
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
    unconfirmed = sky("stop", "--all")
    assert unconfirmed.returncode == 2, "stdin is not a terminal"
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


LINES = """
num_nodes: 2
resources: {image_id: "busybox:1.36"}
run: |
  for i in 1 2 3; do echo "line $i of $NODE_RANK"; sleep 0.3; done
  printf 'no newline'
"""


@pytest.mark.practice_only
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
    tail = sky("logs", "logs0001", "--rank", "1", "--tail", "2").stdout
    assert tail == "node-1 | line 3 of 1\nnode-1 | no newline\n"
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
        pytest.param(
            "volumes: {/data: nothing}\nrun: a\n",
            r'pending: PVC "nothing" not found',
            marks=pytest.mark.practice_only,
        ),
    ],
    ids=["image", "claim"],
)
def test_submit_pending_node_prints_reason(sky: Command, script: str, message: str) -> None:
    running = sky.start("submit", sky.write("t.yaml", script))
    assert running.stderr
    assert any(re.search(message, line) for line in running.stderr)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
