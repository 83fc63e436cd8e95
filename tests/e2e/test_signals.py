"""Ctrl-C in the client, and SIGTERM in the pods."""

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
