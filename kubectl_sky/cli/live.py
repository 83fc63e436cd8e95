"""What a terminal shows of followed tasks: a line for what they wait for, and its title."""

import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING

from kubectl_sky.observe.escapes import plain

if TYPE_CHECKING:
    from kubectl_sky.tasks.ui import WaitingLine

_INTERVAL = 0.25  # seconds between looks at the clock
_ERASE = "\r\x1b[K"
_DEFAULT_COLUMNS = 80
_PUSH_TITLE = "\x1b[22;2t"
_POP_TITLE = "\x1b[23;2t"  # terminals without a stack ignore them
_PROGRESS = "\x1b]9;4;3\x1b\\"
_NO_PROGRESS = "\x1b]9;4;0\x1b\\"


class LiveLine:
    """The line at the bottom of stderr; other output goes above it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._waiting: dict[str, WaitingLine] = {}
        self._drawn = ""
        self._suspended = 0
        self._partial = False  # whether the last output has no final newline
        self._thread: Thread | None = None
        self._titles: dict[str, str] = {}
        self._title = ""
        self._ended = False

    def set(self, key: str, waiting: "WaitingLine | None") -> None:
        """Show what a task waits for; None if it waits no longer."""
        with self._lock:
            self._waiting.pop(key, None)
            if waiting:
                self._waiting[key] = waiting
            self._draw()
            if waiting and not self._thread:
                from kubectl_sky.cluster import parallel

                self._thread = parallel.run_daemon(self._tick, name="live line")

    def set_title(self, key: str, text: str) -> None:
        """Show the state of a task in the title until `end`; empty if it is followed no longer."""
        with self._lock:
            self._titles.pop(key, None)
            if not text or self._ended:
                return
            self._titles[key] = " ".join(plain(text).split())
            title = self._titles[min(self._titles)] + _more(len(self._titles) - 1)
            if title != self._title:
                begin = "" if self._title else _PUSH_TITLE + _PROGRESS * _has_progress()
                sys.stderr.write(f"{begin}\x1b]2;{title}\x1b\\")
                sys.stderr.flush()
                self._title = title

    @contextmanager
    def hidden(self, final_newline: bool = True) -> Iterator[None]:
        """Erase the line while other output is written; it is drawn again below it, later."""
        with self._lock:
            self._erase()
            self._suspended += 1
            self._partial = not final_newline
        try:
            yield
        finally:
            with self._lock:
                self._suspended -= 1

    def end(self) -> None:
        with self._lock:
            self._waiting.clear()
            self._erase()
            self._ended = True  # threads may follow a while longer
            if self._title:
                sys.stderr.write(f"\x1b]2;\x1b\\{_POP_TITLE}{_NO_PROGRESS * _has_progress()}")
                sys.stderr.flush()
                self._title = ""

    def interrupt(self) -> None:
        """Keep the line as it is, with the terminal's ^C, and begin a new one."""
        with self._lock:
            self._waiting.clear()
            self._drawn = ""
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _tick(self) -> None:
        while True:
            sleep(_INTERVAL)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                self._draw()

    def _draw(self) -> None:
        if not self._waiting or self._suspended or self._partial:
            self._erase()
            return
        text = line(list(self._waiting.values()), monotonic(), _columns())
        if text != self._drawn:
            sys.stderr.write(_ERASE + text)
            sys.stderr.flush()
            self._drawn = text

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            self._drawn = ""


def line(waiting: "Sequence[WaitingLine]", now: float, columns: int) -> str:
    """Format the line: `train: pulling python:3.13 on gpu-7 · 0:42 of 5:00`.

    The text is cut so that the time fits into the columns.
    """
    first = waiting[0]
    limit = f" of {_clock(first.limit)}" if first.limit else ""
    suffix = f"{_more(len(waiting) - 1)} · {_clock(now - first.since)}{limit}"
    text = " ".join(plain(first.text).split())
    return _cut(text, columns - 1 - len(suffix)) + suffix


def _more(count: int) -> str:
    return f" (and {count} more)" if count > 0 else ""


def _has_progress() -> bool:
    """Return whether the terminal knows OSC 9;4, which others show as a notification."""
    return "WT_SESSION" in os.environ or os.environ.get("TERM_PROGRAM") in ("WezTerm", "ghostty")


def _cut(text: str, width: int) -> str:
    """Cut a text to a number of terminal columns; East Asian characters take two."""
    used = 0
    for position, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > width:
            return text[: max(position - 1, 0)] + "…"
    return text


def _clock(seconds: float) -> str:
    """Format seconds as `0:42` or `1:02:03`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_COLUMNS
    except (OSError, ValueError):
        return _DEFAULT_COLUMNS
