"""The line that shows what tasks wait for, and tables whose ages move."""

import io
import logging
import re
import sys
from collections.abc import Iterator
from itertools import count
from time import monotonic

import pytest

from kubectl_sky.cli import live, options, output, verbosity
from kubectl_sky.cli.live import LiveLine, line
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.cluster.http_trace import LOGGER, REQUESTS
from kubectl_sky.errors import Interrupted
from kubectl_sky.observe.logs import Origin
from kubectl_sky.tasks.ui import WaitingLine
from tests.polling import eventually

PULLING = "train: preparing python:3.13-slim on gpu-7"


class Screen(io.TextIOWrapper):
    """A terminal that keeps what is written to it."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8")

    def isatty(self) -> bool:
        return True

    @property
    def written(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode()

    @property
    def lines(self) -> list[str]:
        """The lines as they are visible; the last one is empty after a newline."""
        parts = self.written.replace("\x1b[K", "").split("\n")
        return [part.rpartition("\r")[2] for part in parts]


@pytest.fixture(autouse=True)
def _live(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(output, "live", LiveLine())
    monkeypatch.setattr(live, "_INTERVAL", 0.01)
    monkeypatch.delenv("TERM", raising=False)
    yield
    output.live.end()


def make_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Replace stderr during a test; pytest replaces it between a fixture and its test."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


@pytest.mark.parametrize(
    ("columns", "limit", "expected"),
    [
        (120, 300.0, f"{PULLING} · 0:42 of 5:00"),
        (120, None, f"{PULLING} · 0:42"),
        (60, 300.0, f"{PULLING} · 0:42 of 5:00"),
        (40, 300.0, "train: preparing python… · 0:42 of 5:00"),
        (120, 7200.0, f"{PULLING} · 0:42 of 2:00:00"),
    ],
)
def test_line_is_cut_so_that_time_fits(columns: int, limit: float | None, expected: str) -> None:
    assert line([WaitingLine(PULLING, 8.0, limit)], 50.9, columns) == expected
    assert len(expected) < columns


def test_line_of_hostile_text_stays_on_one_line() -> None:
    text = line([WaitingLine("tr\x1b[2Jain:\nno\u202e \U0001f680 你好" + "你" * 90, 0)], 1, 60)
    assert text.startswith("train: no<U+202E> \U0001f680 你好") and text.endswith("… · 0:01")
    assert "\n" not in text and "\x1b" not in text and len(text) < 45, "wide characters"


def test_line_of_several_tasks_counts_the_others() -> None:
    waiting = [WaitingLine("one: queued", 0), WaitingLine("two: queued", 0)]
    assert line(waiting, 5, 80) == "one: queued (and 1 more) · 0:05"


def test_live_line_ticks_until_it_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    clock = count()
    monkeypatch.setattr(live, "monotonic", lambda: float(next(clock)))
    ui = Terminal()
    ui.waiting("a", WaitingLine("train: queued", 0.0, 300.0))
    eventually(lambda: "0:03 of 5:00" in screen.written)
    ui.waiting("a", None)
    assert screen.lines == [""]
    ui.note("done")
    assert screen.lines == ["done", ""]


def test_live_line_stays_below_notes_and_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    ui = Terminal()
    ui.waiting("a", WaitingLine("train: queued", 0.0))
    ui.note("a note")
    eventually(lambda: len(screen.lines) == 2 and screen.lines[1].startswith("train: queued"))
    assert screen.lines[0] == "a note"
    origin = Origin("a", 0, "node-0", "pod", "")
    ui.logs([(origin, b"text without newline")], False)
    written = screen.written
    output.live.set("a", WaitingLine("train: other", 0.0))
    assert screen.written == written, "it would overwrite the text"
    ui.logs([(origin, b""), (origin, b"next")], True)
    eventually(lambda: screen.lines[-1].startswith("train: other"))


def test_live_line_interrupted_begins_new_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    output.live.set("a", WaitingLine("train: queued", 0.0))
    screen.write("^C")
    output.live.interrupt()
    output.error("interrupted; task a goes on")
    first, second, _ = screen.lines
    assert first.startswith("train: queued") and first.endswith("^C")
    assert second == "interrupted; task a goes on"


@pytest.mark.parametrize("term", ["dumb", None])
def test_waiting_without_live_terminal_is_a_line(
    term: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if term:
        monkeypatch.setenv("TERM", term)
    ui = Terminal()
    ui.waiting("a", WaitingLine(PULLING, 0.0, 300.0))
    ui.waiting("a", None)
    assert capsys.readouterr().err == f"{PULLING}\n"


def test_live_text_is_outdated_after_a_second_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(output, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stdout", Screen())
    shown = output.LiveText()
    assert not shown.is_outdated, "nothing is shown yet"

    shown.show("AGE 0s")
    assert not shown.is_outdated

    now[0] = 1.0
    assert shown.is_outdated

    shown.show("AGE 0s")
    assert not shown.is_outdated

    monkeypatch.setattr(sys, "stdout", io.StringIO())
    piped = output.LiveText()
    piped.show("AGE 0s")
    now[0] = 9.0
    assert not piped.is_outdated


def test_live_text_in_pipe_prints_no_empty_line_for_a_deleted_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    piped = output.LiveText()
    for text in ("ID\na\nb", "ID\na", "ID\na\nc"):
        piped.show(text)
    assert capsys.readouterr().out == "ID\na\nb\nc\n"


def test_http_trace_is_written_above_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    monkeypatch.setattr(live, "_INTERVAL", 60)
    verbosity.start(6)
    output.live.set("a", WaitingLine("train: queued", monotonic()))
    logging.getLogger(LOGGER).log(REQUESTS, "GET /version")
    verbosity.start(0)
    assert screen.lines == ["GET /version", ""]


def test_confirm_question_with_hostile_name_is_one_plain_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompts: list[str] = []

    def accept(prompt: str) -> str:
        prompts.append(prompt)
        return "y"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", accept)
    options.confirm("Stop evil\x1b[2J\r\nDelete mine?")
    assert prompts == ["Stop evil Delete mine? [y/N]: "]


def test_confirm_interrupted_is_not_said_behind_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", interrupt)
    with pytest.raises(Interrupted, match="interrupted"):  # which begins a new line
        options.confirm("Stop 2 tasks?")


def title_of(screen: Screen) -> list[str]:
    """Return the sequences for the title and the progress of the terminal, in order."""
    return re.findall(r"\x1b(\](?:2|9;4);?[^\x07\x1b]*|\[2[23];2t)", screen.written)


def test_title_shows_the_first_task_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "ghostty")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = make_screen(monkeypatch)
    ui = Terminal()
    ui.following("a", "train: 3 of 4 running")
    ui.following("a", "train: 3 of 4 running")
    ui.following("b", "eval: pending")
    ui.following("a", "")
    ui.following("b", "ev\x1b]0;al\x07\nbell\x9c: running")
    output.live.end()

    ui.following("b", "eval: completed")
    assert title_of(screen) == [
        *("[22;2t", "]9;4;3", "]2;train: 3 of 4 running"),
        "]2;train: 3 of 4 running (and 1 more)",
        "]2;ev bell�: running",
        *("]2;", "[23;2t", "]9;4;0"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "has_title"),
    [("NO_COLOR", "1", False), ("TERM", "dumb", False), ("TERM_PROGRAM", "iTerm.app", True)],
)
def test_progress_needs_a_known_terminal_and_a_title_one_with_colours(
    name: str, value: str, has_title: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("NO_COLOR", "WT_SESSION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, value)
    screen = make_screen(monkeypatch)
    ui = Terminal()
    ui.following("a", "train: running")
    output.live.end()
    sequences = ["[22;2t", "]2;train: running", "]2;", "[23;2t"]
    assert title_of(screen) == (sequences if has_title else [])
    if not has_title:
        assert screen.written == ""
