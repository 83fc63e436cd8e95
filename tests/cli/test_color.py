"""Colours and widths of tables, on terminals of several sizes."""

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest

from kubectl_sky.cli import output, tasks
from kubectl_sky.observe import ownership, status
from tests.builders import make_job, make_pod, terminated
from tests.reading import read_jobs, read_pods

RED = "\x1b[31m"
CYAN = "\x1b[36m"
RESET = "\x1b[0m"
HEADER = ["ID", "STATUS", "HOST", "REASON"]
ROWS = [
    ["bcdf2345", "failed", "worker-17.example.com", "OOMKilled (exit code 137), 3 restarts"],
    ["bcdg6789", "completed", "worker-18.example.com", ""],
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def style(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(output, "style", output.Style())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield


NewScreen = Callable[[int], Terminal]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> NewScreen:
    """Replace stdout by a terminal in a test; pytest replaces it after fixtures."""

    def screen(columns: int) -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        size = os.terminal_size((columns, 20))
        monkeypatch.setattr(shutil, "get_terminal_size", lambda *args, **options: size)
        return terminal

    return screen


def table(**options: object) -> str:
    return output.table(HEADER, ROWS, cut=("HOST",), **options)  # type: ignore[arg-type]


def test_table_on_wide_terminal_has_all_columns_and_colored_state(screen: NewScreen) -> None:
    terminal = screen(120)
    output.out(table())
    header, first, second = terminal.getvalue().splitlines()
    assert header.split() == HEADER
    assert f"   {RED}failed{RESET}      worker-17" in first
    assert f"   {CYAN}completed{RESET}   worker-18" in second


@pytest.mark.parametrize("columns", [200, 80, 60, 40, 20, 10, 3])
def test_table_has_no_wrapped_row_on_narrow_terminal(screen: NewScreen, columns: int) -> None:
    terminal = screen(columns)
    output.out(table())
    lines = re.sub(r"\x1b\[[0-9]+m", "", terminal.getvalue()).splitlines()
    assert len(lines) == 3
    assert all(len(line) <= columns for line in lines)


def test_narrow_table_leaves_out_least_important_column(screen: NewScreen) -> None:
    terminal = screen(60)
    output.out(table())
    header, first, _ = terminal.getvalue().splitlines()
    assert header.split() == ["ID", "STATUS", "REASON"]
    assert first.endswith("OOMKilled (exit code 137), 3 restarts")


def test_fields_on_a_narrow_terminal_are_wrapped_but_for_commands(screen: NewScreen) -> None:
    command = "kubectl sky cp bcdf2345:/data/results/of/the/seventh/run ."
    reason = "node-0: exit code 1: Python module torch not found; 3 restarts"
    image = "ghcr.io/team/train@sha256:" + "a" * 64
    facts = {"Status": f"failed — {reason}", "Results": command, "Image": image}
    terminal = screen(60)
    output.out("\n".join(output.fields(facts)))
    first, second, results, last = terminal.getvalue().splitlines()
    assert first.startswith(f"Status:     {RED}failed{RESET} — node-0: exit code 1")
    assert second == f"{'':<12}torch not found; 3 restarts"
    assert results == f"Results:    {command}"
    assert last == f"Image:      {image}"


@pytest.mark.parametrize("columns", [120, 60])
def test_progress_bar_fits_a_narrow_terminal(
    screen: NewScreen, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    terminal = screen(columns)
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.transfer("copying model.bin", 1 << 30) as advance:
        advance(1 << 20)
        advance(1 << 20)
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", terminal.getvalue()))
    assert any("[" in line for line in lines), lines
    assert max(map(len, lines)) < columns


def test_piped_table_is_whole_and_without_color(capsys: pytest.CaptureFixture[str]) -> None:
    output.out(table())
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(("choice", "colored"), [("always", True), ("never", False)])
def test_color_flag_decides_for_pipes_and_terminals(
    choice: str, colored: bool, screen: NewScreen, capsys: pytest.CaptureFixture[str]
) -> None:
    output.style.color = choice
    output.out(table())
    output.error("error: something failed")
    captured = capsys.readouterr()
    assert (RED in captured.out, RED in captured.err) == (colored, colored)
    terminal = screen(120)
    output.out(table())
    assert (RED in terminal.getvalue()) == colored


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_color_and_dumb_terminal_have_no_color(
    name: str, value: str, screen: NewScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    terminal = screen(120)
    output.out(table())
    assert "\x1b" not in terminal.getvalue()


def test_color_of_untrusted_text_is_removed(screen: NewScreen) -> None:
    terminal = screen(120)
    output.out(output.table(["NAME", "STATUS"], [["\x1b[32mrunning\x1b[0m", "failed"]]))
    output.out("a message with \x1b[31mcolour\x1b[0m")
    text = terminal.getvalue()
    assert text.count("\x1b") == 2  # those of the state
    assert "\x1b[32m" not in text


def test_list_has_reason_only_if_task_is_pending_or_failed() -> None:
    failed = make_pod(state=terminated(137, "OOMKilled"), phase="Failed")
    of_jobs = [
        ownership.decide(read_jobs([make_job(end="Failed")]), read_pods([failed])),
        ownership.decide(read_jobs([make_job(end="Complete")]), []),
    ]
    [bad], [good] = (status.fold(owned) for owned in of_jobs)
    header, row = tasks.listing([bad], None, []).splitlines()
    assert header.split()[-1] == "REASON"
    assert "OOMKilled" in row
    assert tasks.listing([good], None, []).splitlines()[0].split()[-1] == "AGE"
