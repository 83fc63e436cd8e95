"""On a terminal: confirmation prompts and progress bars."""

import re

import pytest

from tests.e2e.command import Command
from tests.e2e.terminal import run_on_terminal

pytestmark = pytest.mark.practice_only

TASK = "name: quick\nresources: {cpus: 900}\nrun: 'true'\n"  # never scheduled


def test_submit_on_terminal_shows_what_it_waits_for(sky: Command) -> None:
    path = sky.write("quick.yaml", TASK)
    arguments = ("submit", path, "--id", "line0001", "--wait-timeout", "5s")
    code, screen = run_on_terminal(sky, *arguments, columns=60)
    assert code == 1, screen
    assert "\x1b]2;quick: " in screen, "the title"

    screen = re.sub(r"\x1b\]2;.*?\x1b\\|\x1b\[2[23];2t", "", screen)
    updates = [part for part in re.split(r"[\r\n]|\x1b\[K", screen) if " of 0:05" in part]
    assert len({part[-12:] for part in updates}) >= 3, "it ticks"
    assert all(len(part) < 60 and part.startswith("quick: ") for part in updates)
    assert any("pending: 1/1 cluster nodes" in part for part in updates)
    assert screen.count("practice cluster: images are not pulled; this machine's Python 3.") == 1

    last = screen.rpartition(" of 0:05")[2]
    red = "\x1b[31merror:\x1b[0m"
    message = f"{red} task line0001 did not start in time: 1/1 cluster nodes"
    assert last.startswith(f"\r\x1b[K{message}")


def test_submit_many_objects_shows_progress_on_terminal_only(sky: Command) -> None:
    path = sky.write("many.yaml", TASK + "num_nodes: 60\n")
    code, screen = run_on_terminal(sky, "submit", path, "--id", "bars0001", "--detach")
    assert code == 0, screen
    assert "Sending" in screen and "100%" in screen
    assert sky("stop", "bars0001").returncode == 0
    done = sky("submit", path, "--id", "bars0002", "--detach")
    assert done.returncode == 0
    assert "Sending" not in done.stderr and "%" not in done.stderr
    assert done.stderr == "", "how the other nodes of a failed one are stopped is said once"
    assert sky("stop", "bars0002").returncode == 0
