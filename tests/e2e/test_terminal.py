"""On a terminal: confirmation prompts and progress bars."""

import os
import pty
import select
import time

import pytest

from tests.e2e.conftest import Command

pytestmark = pytest.mark.practice_only

TASK = "name: quick\nresources: {cpus: 900}\nrun: 'true'\n"  # never scheduled


def on_terminal(sky: Command, *arguments: str, types: str = "") -> tuple[int, str]:
    """Run a command on a terminal with this input; return its exit code and the screen."""
    ours, theirs = pty.openpty()
    running = sky.start(*arguments, terminal=theirs)
    os.close(theirs)
    os.write(ours, types.encode())
    screen = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                screen += os.read(ours, 65536)
            except OSError:  # closed by the other side
                break
    os.close(ours)
    return running.wait(timeout=30), screen.decode()


def test_stop_all_on_terminal_asks_for_confirmation(sky: Command) -> None:
    assert sky("submit", "-", "--id", "asked001", "--detach", stdin=TASK).returncode == 0
    code, screen = on_terminal(sky, "stop", "--all", types="n\n")
    assert code == 2
    assert "Stop 1 task of 1 user? [y/N]:" in screen
    assert "cancelled" in screen
    assert sky("status", "asked001").returncode == 0
    code, screen = on_terminal(sky, "stop", "--all", types="y\n")
    assert code == 0
    assert "Stopped 1 task" in screen


def test_volumes_delete_on_terminal_asks_for_confirmation(sky: Command) -> None:
    assert sky("volumes", "create", "notes", "1Gi").returncode == 0
    code, screen = on_terminal(sky, "volumes", "delete", "notes", types="y\n")
    assert code == 0, screen
    assert "and its data? [y/N]:" in screen
    assert sky.json("volumes", "list")["volumes"] == []


def test_submit_many_objects_shows_progress_on_terminal_only(sky: Command) -> None:
    path = sky.write("many.yaml", TASK + "num_nodes: 60\n")
    code, screen = on_terminal(sky, "submit", path, "--id", "bars0001", "--detach")
    assert code == 0, screen
    assert "Sending" in screen and "100%" in screen
    assert sky("stop", "bars0001").returncode == 0
    done = sky("submit", path, "--id", "bars0002", "--detach")
    assert done.returncode == 0
    assert "Sending" not in done.stderr and "%" not in done.stderr
    assert done.stderr.count("\n") == 1, "only the gang scheduler warning"
    assert sky("stop", "bars0002").returncode == 0


def test_output_of_program_with_escape_codes_is_sanitized_on_terminal(sky: Command) -> None:
    script = r"printf '\033]0;owned\007\033[31mred\033[2J\n' >&2; exit 1"
    text = f"resources: {{image_id: 'busybox:1.36'}}\nrun: |\n  {script}\n"
    assert sky("submit", "-", "--id", "rude0001", "--detach", stdin=text).returncode == 0
    assert sky("wait", "rude0001").returncode == 4
    for command in ("status", "doctor", "logs"):
        _, screen = on_terminal(sky, command, "rude0001")
        assert "red" in screen and "owned" not in screen, command
        assert "\x1b[2J" not in screen and "\x1b]" not in screen, command
