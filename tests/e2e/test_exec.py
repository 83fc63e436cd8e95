"""Run commands in the containers of a task."""

import os
import pty
import select
import signal
import subprocess
import time

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit, until_running
from tests.polling import eventually

TASK = """
name: serve
num_nodes: {nodes}
resources: {{image_id: 'busybox:1.36'}}
envs: {{COLOUR: blue}}
secrets: {{TOKEN: hidden}}
run: mkdir -p ~/sky_workdir; sleep 300
"""


@pytest.fixture
def single(sky: Command) -> str:
    submit(sky, TASK.format(nodes=1), "serve001")
    until_running(sky, "serve001")
    return "serve001"


@pytest.fixture
def several(sky: Command) -> str:
    submit(sky, TASK.format(nodes=3), "serve003")
    eventually(lambda: sky.json("status", "serve003")["metadata"]["running_nodes"] == 3)
    return "serve003"


@pytest.mark.practice_only
def test_exec_passes_exit_code_and_streams(sky: Command, single: str) -> None:
    done = sky("exec", single, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")

    done = sky("exec", "serve", "echo", "a b", "$HOME")
    assert (done.returncode, done.stdout) == (0, "a b $HOME\n")
    assert sky("exec", single, "--", "nope").returncode == 127
    done = sky("exec", single, "X='one  two'; echo \"$X $SKYPILOT_NODE_RANK\"; exit 3")
    assert (done.returncode, done.stdout) == (3, "one  two 0\n"), "a line of shell"

    done = sky("exec", single, "-i", "--", "wc", "-c", stdin="x" * 300_000)
    assert (done.returncode, done.stdout.strip()) == (0, "300000")
    assert sky("exec", single, "--", "cat", stdin="not passed on").stdout == ""

    done = sky("exec", single, "-it", "--", "echo", "plain")
    assert (done.returncode, done.stdout) == (0, "plain\n")
    assert "stdin is not a terminal" in done.stderr

    running = sky.start("exec", single, "--", "sh", "-c", "echo begun; sleep 60")
    assert running.stdout and running.stdout.readline() == "begun\n"

    running.send_signal(signal.SIGINT)
    _, output = running.communicate(timeout=60)
    assert (running.returncode, output) == (130, "interrupted\n")


@pytest.mark.practice_only
def test_exec_has_task_variables_and_runs_on_all_ranks(sky: Command, several: str) -> None:
    names = "COLOUR TOKEN SKYPILOT_NODE_RANK SKYPILOT_NUM_NODES MASTER_ADDR SKYPILOT_TASK_ID"
    script = f"for name in {names}; do eval echo \\$$name; done; echo $SKYPILOT_NODE_IPS"
    done = sky("exec", several, "--rank", "2", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr

    *words, addresses = done.stdout.splitlines()
    first, *others = addresses.split()
    assert words == ["blue", "hidden", "2", "3", first, f"serve-{several}"]
    assert len(set(others)) == 2

    script = "echo rank $NODE_RANK; echo e >&2; printf end; exit $NODE_RANK"
    done = sky("exec", several, "--all-ranks", "--", "sh", "-c", script)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == sorted(
        line for n in range(3) for line in (f"node-{n} | rank {n}", f"node-{n} | end")
    )
    assert sorted(done.stderr.splitlines()) == sorted(
        [*(f"node-{n} | e" for n in range(3)), "node-1: exit code 1", "node-2: exit code 2"]
    )


# short sleeps: a shell runs a trap only after its child exits
KEYS = """trap 'echo caught; c=1' INT; echo ready; while [ -z "$c" ]; do sleep 0.1; done
until [ "$(stty size)" = "17 91" ]; do sleep 0.1; done; echo resized; read _; exit 3"""


def test_exec_terminal_passes_signals_and_window_size(sky: Command, single: str) -> None:
    """Ctrl-C interrupts the remote program only; resizes are sent; the terminal is restored."""
    ours, theirs = pty.openpty()
    running = sky.start("exec", single, "-it", "--", "sh", "-c", KEYS, terminal=theirs)
    before = subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, check=True).stdout
    screen = b""

    def until(text: bytes) -> None:
        nonlocal screen
        deadline = time.monotonic() + 60
        while text not in screen:
            assert time.monotonic() < deadline, screen
            if select.select([ours], [], [], 0.2)[0]:
                screen += os.read(ours, 65536)

    until(b"ready")
    os.write(ours, b"\x03")
    until(b"caught")
    subprocess.run(["stty", "rows", "17", "cols", "91"], stdin=theirs, check=True)
    running.send_signal(signal.SIGWINCH)
    until(b"resized")
    os.write(ours, b"end\r")
    assert running.wait(60) == 3
    after = subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, check=True).stdout
    assert after == before
    os.close(ours)
    os.close(theirs)
