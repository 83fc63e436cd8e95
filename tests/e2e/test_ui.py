"""`kubectl sky ui` on a terminal, driven by keys."""

import os
import signal

import pytest

from tests.e2e.command import Command
from tests.e2e.terminal import on_terminal

TALKING = "name: talk\nrun: |\n  echo '[red]data[/red]'\n  sleep 600\n"


@pytest.mark.practice_only
def test_ui_shows_log_and_stops_task(sky: Command) -> None:
    assert sky("submit", "-", "--id", "full0001", "--detach", stdin=TALKING).returncode == 0
    with on_terminal(sky, 120, 40) as terminal:
        terminal.shows("full0001", "talk", "running")
        terminal.press("l")
        terminal.shows("[red]data[/red]")
        terminal.press("\x1b")
        terminal.shows("1 task")
        terminal.press("\x0b")
        terminal.shows("Stop this task")
        terminal.press("y")
        terminal.shows("stopped")
        terminal.press("q")
    assert "not found" in sky("status", "full0001").stderr


@pytest.mark.practice_only
def test_ui_terminated_restores_screen(sky: Command) -> None:
    with on_terminal(sky, 80, 24, expected=143) as terminal:
        terminal.shows("no tasks found")
        os.kill(sky.started[-1].pid, signal.SIGTERM)
