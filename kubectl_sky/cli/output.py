"""Output of commands: tables for people; JSON, YAML and names for programs."""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import TextIO

import click
from msgspec import Struct

from kubectl_sky.cli.live import LiveLine
from kubectl_sky.errors import Problem, join_names
from kubectl_sky.observe.escapes import plain
from kubectl_sky.words.documents import API_VERSION, Document, as_json

JSONPATH = "jsonpath="
COLUMNS = "custom-columns="
_MAX_CELL_CHARACTERS = 1000  # characters in one table cell
_MIN_PROGRESS_OBJECTS = 50  # number of objects that can be sent within a second
_MIN_PROGRESS_BYTES = 20_000_000  # bytes that can be read within a second
_TICK = 0.9  # seconds between updates of ages
_BAR_WIDTH = 36
_BAR_DETAILS = 26  # characters beside the label and the bar: brackets, percentage, time left
_MIN_LAST_COLUMN = 20  # characters of the last column before other columns are left out
_RED = 31
_GREEN = 32
_YELLOW = 33
_CYAN = 36
_COLORS = {
    **dict.fromkeys(("failed", "problem", "error:"), _RED),
    **dict.fromkeys(("running", "ok"), _GREEN),
    "completed": _CYAN,
    **dict.fromkeys(("pending", "warning:"), _YELLOW),
}
_INDENT = 12  # of the values of fields
_MAX_COLUMNS = 108  # of wrapped text
_MIN_COLUMNS = 40
_STATES = ("STATUS", "STATE")  # columns with states
# Marks our colours, which are kept where those of the cluster's text are removed.
_MARK = os.urandom(8).hex()
_MARKED = re.compile(rf"{_MARK}\[([0-9]+)m")
_SGR = re.compile(r"\x1b\[[0-9]+m")
_CLEAR = "\x1b[2J"
_HOME = "\x1b[H"
_END_OF_LINE = "\x1b[K"
_BELOW = "\x1b[J"


@dataclass
class Style:
    """How to print, from the flags that every command has."""

    quiet: bool = False
    color: str = "auto"
    no_headers: bool = False
    is_template: bool = False  # which has the line breaks that the user wants


style = Style()
live = LiveLine()


def out(text: str) -> None:
    with live.hidden():
        newline = not style.is_template
        click.echo(shown(text, sys.stdout), nl=newline, color=colored(sys.stdout) or None)


def names(items: Iterable[str]) -> None:
    """Print names for other commands, one per line; no empty line if there are none."""
    text = "\n".join(items)
    if text:
        out(text)


def note(text: str) -> None:
    """Print a note on stderr, unless --quiet is set."""
    if not style.quiet or text.startswith("warning:"):
        error(text)


def error(text: str) -> None:
    """Print an error, warning or prompt on stderr."""
    word, space, rest = text.partition(" ")
    if word in ("error:", "warning:"):
        text = in_color(word, sys.stderr) + space + rest
    with live.hidden(), lossy_stderr():
        click.echo(shown(text, sys.stderr), err=True, color=colored(sys.stderr) or None)


@contextmanager
def lossy_stderr() -> Iterator[None]:
    """Let a command continue whose stderr nobody reads any more: its exit code still counts."""
    try:
        yield
    except BrokenPipeError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Drop what is still written to a stream whose reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def notes(items: Iterable[object]) -> None:
    for item in items:
        note(str(item))


def omitted(runtime: str) -> str:
    return f"omitted {runtime}: the name is a hash of its scripts, which the pods need"


def problems(items: Sequence[Problem]) -> None:
    """Print problems of files on stderr, one per line; only the first of very many."""
    if items:
        error(join_names(items))


def warning(text: str) -> None:
    note(f"warning: {text}")


def shown(text: str, stream: TextIO) -> str:
    """Make the control sequences of a text harmless if the stream is a terminal.

    The text may quote the cluster and its programs.
    """
    if _MARK in text:
        return "".join(
            f"\x1b[{part}m" if index % 2 else shown(part, stream)
            for index, part in enumerate(_MARKED.split(text))
        )
    return plain(text) if stream.isatty() else text


def in_color(text: str, stream: TextIO | None = None) -> str:
    """Return a state or another word in its colour, if the stream (stdout) is coloured."""
    color = _COLORS.get(text.partition(" (")[0])  # `failed (held 29m)`
    if color is None or not colored(stream or sys.stdout):
        return text
    return f"{_MARK}[{color}m{text}{_MARK}[0m"


def is_live() -> bool:
    """Return whether a line on stderr can be rewritten."""
    return _shows_progress() and os.environ.get("TERM") != "dumb"


def _shows_progress() -> bool:
    return sys.stderr.isatty() and not style.quiet


def colored(stream: TextIO) -> bool:
    """Return whether to colour a stream; `auto` follows no-color.org."""
    if style.color != "auto":
        return style.color == "always"
    return stream.isatty() and not (os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")


def progress(label: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
    """Show a progress bar if stderr is a terminal and there are many objects."""
    return _bar(label, total, hidden=total < _MIN_PROGRESS_OBJECTS)


def transfer(label: str, size: int) -> AbstractContextManager[Callable[[int], object]]:
    """Show a progress bar of bytes if stderr is a terminal and the size is large."""
    label = f"{label} ({size / 1e6:,.0f} MB)"
    return _bar(label, max(size, 1), hidden=size < _MIN_PROGRESS_BYTES)


@contextmanager
def _bar(label: str, total: int, hidden: bool) -> Iterator[Callable[[int], object]]:
    hidden = hidden or not _shows_progress()
    width = min(_BAR_WIDTH, shutil.get_terminal_size().columns - len(label) - _BAR_DETAILS)
    with (
        live.hidden() if not hidden else nullcontext(),
        click.progressbar(
            length=total, label=label, file=sys.stderr, hidden=hidden, width=max(width, 1)
        ) as bar,
    ):
        yield bar.update


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    cut: Sequence[str] = (),
    fits: bool = True,
) -> str:
    """Format a table like kubectl: columns three spaces apart, without lines.

    A table that is wider than the terminal loses the columns of `cut`, in that order, until the
    rest fits; what is still too long is cut. Without `fits`, the terminal wraps it.
    """
    lines = [] if style.no_headers else [list(header)]
    lines += [list(map(cell, row)) for row in rows]
    widths = [
        max((len(line[column]) for line in lines), default=0) for column in range(len(header))
    ]
    limit = shutil.get_terminal_size().columns if fits and sys.stdout.isatty() else sys.maxsize
    columns = _fitting(header, widths, cut, limit)
    return "\n".join(_row(header, line, [(c, widths[c]) for c in columns], limit) for line in lines)


def _fitting(
    header: Sequence[str], widths: Sequence[int], cut: Sequence[str], limit: int
) -> list[int]:
    """Return the columns that fit, with a part of the last one at least."""
    columns = list(range(len(header)))
    for title in cut:
        *others, last = (widths[column] for column in columns)
        if sum(others) + 3 * len(others) + min(last, _MIN_LAST_COLUMN) <= limit:
            break
        columns = [column for column in columns if header[column] != title]
    return columns


def _row(
    header: Sequence[str], line: Sequence[str], columns: Sequence[tuple[int, int]], limit: int
) -> str:
    """Format a row; the state has its colour unless it is cut."""
    parts = []
    width = 0
    for column, column_width in columns:
        text = line[column]
        end = width + len(text)
        if end > limit:
            parts.append(text[: max(limit - width - 1, 0)] + "…")
            break
        padding = " " * (column_width - len(text) + 3)
        parts.append((in_color(text) if header[column] in _STATES else text) + padding)
        width = end + len(padding)
        if width >= limit:
            break
    return "".join(parts).rstrip()


def cell(text: str) -> str:
    """Put untrusted text on one line, so that it cannot look like another row.

    Long text is cut.
    """
    if not text.isprintable():
        text = " ".join(plain(text).split())
    return text if len(text) <= _MAX_CELL_CHARACTERS else f"{text[:_MAX_CELL_CHARACTERS]}…"


def fields(values: Mapping[str, str]) -> list[str]:
    """Format a line for each value; a terminal gets long ones wrapped, but for commands."""
    lines = []
    for name, value in values.items():
        text = cell(value)
        parts = [text]
        if sys.stdout.isatty() and not text.startswith("kubectl "):
            parts = wrap(text, _INDENT) or [""]
        if name == "Status":
            state, dash, note = parts[0].partition(" — ")
            parts[0] = f"{in_color(state)}{dash}{note}"
        lines.append(f"{name + ':':<{_INDENT}}{parts[0]}")
        lines += [f"{'':<{_INDENT}}{part}" for part in parts[1:]]
    return lines


def wrap(text: str, indent: int) -> list[str]:
    """Wrap a text at the width of the terminal, between words."""
    columns = shutil.get_terminal_size((_MAX_COLUMNS, 24)).columns  # without one: _MAX_COLUMNS
    width = min(_MAX_COLUMNS, max(columns, _MIN_COLUMNS)) - indent
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def data(value: object, form: str) -> str:
    """Format a value as JSON or YAML, with a `jsonpath=` template, or as `custom-columns=`."""
    value = as_json(value)
    if form.startswith(JSONPATH):
        from kubectl_sky.cli import jsonpath

        return jsonpath.render(value, form.removeprefix(JSONPATH))
    if form.startswith(COLUMNS):
        from kubectl_sky.cli import jsonpath

        return table(*jsonpath.columns(value, form.removeprefix(COLUMNS)), fits=False)
    if form == "json":
        return json.dumps(value, indent=4, ensure_ascii=False)
    import yaml  # tables do not need it

    text: str = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


def document(kind: str, fields: Struct | Mapping[str, object], form: str) -> str:
    """Format what has no API version and kind in lists, with these; see docs/json.md."""
    return data({"apiVersion": API_VERSION, "kind": kind, **as_json(fields)}, form)


def print_document(form: str | None, document: Document, identifiers: Iterable[str]) -> bool:
    """Print a document, or names, for programs; return False if a table is wanted."""
    if form == "name":
        names(identifiers)
    elif form not in (None, "wide"):
        out(data(document, form))
    else:
        return False
    return True


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class LiveText:
    """Output that shows a text repeatedly; on a terminal also because its ages change.

    In a pipe, tables and other texts are written line by line, as far as lines are new. JSON and
    YAML are written whole.
    """

    def __init__(self, form: str | None = None) -> None:
        self._form = form
        self._terminal = sys.stdout.isatty()
        self._has_drawn = False
        self._shown_at = 0.0
        self._lines: list[str] = []

    @property
    def is_outdated(self) -> bool:
        """Whether a second has passed since a terminal showed the text."""
        return self._terminal and self._has_drawn and monotonic() >= self._shown_at + _TICK

    def show(self, text: str) -> None:
        """Show the current text; an unchanged text is not written again."""
        lines = shown(text, sys.stdout).splitlines()
        self._shown_at = monotonic()
        if lines == self._lines:
            return
        if self._terminal:
            self._draw(lines)
        else:
            self._write(lines)
        self._lines = lines

    def _write(self, lines: list[str]) -> None:
        if self._form in ("json", "yaml"):
            separator = ["---"] if self._form == "yaml" and self._lines else []
            click.echo("\n".join(separator + lines))
            return
        previous = set(self._lines)
        for line in lines:
            if line not in previous:
                click.echo(line)

    def _draw(self, lines: list[str]) -> None:
        columns, rows = shutil.get_terminal_size()
        hidden = len(lines) - (rows - 1)
        if hidden > 0:
            lines = [*lines[: rows - 2], f"… and {hidden + 1} more lines"]
        prefix = _HOME if self._has_drawn else _CLEAR + _HOME
        body = ""
        for line in lines:  # one that is cut loses its colours
            text = _SGR.sub("", line)
            body += f"{line if len(text) <= columns else text[:columns]}{_END_OF_LINE}\n"
        click.echo(prefix + body + _BELOW, nl=False)
        self._has_drawn = True
