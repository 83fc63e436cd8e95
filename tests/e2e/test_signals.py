"""Ctrl-C in the client, and SIGTERM in the pods."""

import re
import signal

import pytest

from tests.e2e.command import Command
from tests.e2e.support import objects

STOPPABLE = """
import os, signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(300)
"""


def test_stop_sends_sigterm_and_waits_for_program(sky: Command) -> None:
    """SIGTERM reaches the program through two shells, and the pod waits until it exits."""
    script = "num_nodes: 2\nrun: |\n  python3 - <<'END'\n"
    script += "".join(f"  {line}\n" for line in f"{STOPPABLE}END\n".splitlines())
    running = sky.start("submit", sky.write("t.yaml", script), "--id", "saves001")
    assert running.stdout
    lines = [running.stdout.readline() for _ in range(3)]
    assert all(line.endswith("ready\n") for line in lines[1:]), lines
    assert sky("stop", "saves001").returncode == 0
    rest, output = running.communicate(timeout=60)
    assert rest.count("saved") == 2
    assert running.returncode == 4
    assert "task saves001 (task-saves001) was stopped" in output


@pytest.mark.practice_only
def test_clients_killed_while_they_follow_leave_nothing_and_can_be_run_again(
    sky: Command, kubectl: Command
) -> None:
    script = "num_nodes: 2\nrun: for i in 1 2 3; do echo tick $i; sleep 1; done\n"
    assert sky("submit", "-", "-d", "--id", "killed09", stdin=script).returncode == 0

    before = objects(kubectl, "killed09")
    clients = [sky.start(*command, "killed09") for command in (("logs", "-f"), ("wait",))]
    assert clients[0].stdout
    assert "tick 1" in clients[0].stdout.readline(), clients[0].communicate()

    for client in clients:
        client.kill()
        assert client.wait(60) == -signal.SIGKILL
    assert objects(kubectl, "killed09") == before

    done = sky("logs", "-f", "killed09")
    lines = [f"node-{rank} | tick {number}" for rank in (0, 1) for number in range(1, 4)]
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, lines), done.stderr
    assert sky("wait", "killed09").returncode == 0
    assert sky("stop", "killed09").returncode == 0


HOOKS = """
name: train
resources: {cpus: 100m, memory: 64Mi, image_id: 'busybox:1.36'}
event_callback: echo "callback $JOB_STATUS of $JOB_ID, task $TASK_ID $TASK_NAME"
config:
  hooks:
    - {run: 'echo "saves at $SKYPILOT_HOOK_EVENT"', timeout: 20}
    - {run: sleep 300, timeout: 1, events: [preemption]}
    - {run: exit 3, timeout: 5, events: [down]}
run: |
  trap 'echo program stops; exit 1' TERM
  echo ready
  while :; do sleep 1; done
"""


def test_stop_runs_hooks_before_program_gets_sigterm(sky: Command, kubectl: Command) -> None:
    running = sky.start("submit", sky.write("t.yaml", HOOKS), "--id", "hooks001")
    assert running.stdout

    lines = [running.stdout.readline() for _ in range(4)]
    assert lines[1:] == [
        "kubectl-sky: event_callback: callback STARTING of hooks001, task 0 train\n",
        "kubectl-sky: event_callback: callback STARTED of hooks001, task 0 train\n",
        "ready\n",
    ]

    pod = kubectl("get", "pods", "-o", "jsonpath={.items[0].spec.terminationGracePeriodSeconds}")
    assert pod.stdout == "56"
    assert sky("stop", "hooks001").returncode == 0

    rest, _ = running.communicate(timeout=90)
    shown = [line for line in rest.splitlines() if line != "Terminated"]
    assert shown == [
        "kubectl-sky: hook for preemption begins",
        "saves at preemption",
        "kubectl-sky: hook for preemption has ended",
        "kubectl-sky: hook for preemption begins",
        "kubectl-sky: hook for preemption was killed: its timeout is 1 seconds",
        "kubectl-sky: hook for down begins",
        "kubectl-sky: hook for down failed with exit code 3",
        "program stops",
        "kubectl-sky: event_callback: callback CANCELLED of hooks001, task 0 train",
    ]


@pytest.mark.practice_only
@pytest.mark.parametrize(("code", "status"), [(0, "SUCCEEDED"), (5, "FAILED")])
def test_event_callback_of_pipeline_tells_end_of_each_task(
    sky: Command, code: int, status: str
) -> None:
    callback = "event_callback: 'echo $TASK_ID $JOB_ID $JOB_STATUS; exit 1'\n"
    script = f"name: a\nrun: 'true'\n{callback}---\nname: b\nrun: exit {code}\n{callback}"
    done = sky("submit", "-", "--id", "calls001", stdin=script)
    assert done.returncode == (4 if code else 0)
    printed = re.findall(r"kubectl-sky: event_callback: (.*)", done.stdout)
    assert printed == [
        *(f"0 calls001 {name}" for name in ("STARTING", "STARTED", "SUCCEEDED")),
        *(f"1 calls001 {name}" for name in ("STARTING", "STARTED", status)),
    ]
    assert f"event_callback of {status} failed with exit code 1" in done.stdout
