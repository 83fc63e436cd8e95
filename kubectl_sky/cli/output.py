"""Output of commands: tables for people; JSON, YAML and names for programs."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import TextIO

import click

from kubectl_sky import documents
from kubectl_sky.cli.live import LiveLine
from kubectl_sky.errors import Problem, listed
from kubectl_sky.observe.escapes import plain

JSONPATH = "jsonpath="
_MAX_CELL_CHARACTERS = 1000  # characters in one table cell
_MIN_PROGRESS_OBJECTS = 50  # number of objects that can be sent within a second
_MIN_PROGRESS_BYTES = 20_000_000  # bytes that can be read within a second
_TICK = 0.9  # seconds between updates of ages
_CLEAR, _HOME, _END_OF_LINE, _BELOW = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"


@dataclass
class Style:
    """How to print, from the flags that every command has."""

    quiet: bool = False
    color: str = "auto"
    no_headers: bool = False


style = Style()
live = LiveLine()


def out(text: str) -> None:
    """Print a result on stdout."""
    with live.hidden():
        click.echo(shown(text, sys.stdout))


def note(text: str) -> None:
    """Print a note on stderr, unless --quiet is set."""
    if not style.quiet or text.startswith("warning:"):
        error(text)


def error(text: str) -> None:
    """Print an error, warning or prompt on stderr."""
    with live.hidden():
        click.echo(shown(text, sys.stderr), err=True)


def notes(items: Iterable[object]) -> None:
    """Print notes on stderr, one per line."""
    for item in items:
        note(str(item))


def problems(items: Sequence[Problem]) -> None:
    """Print problems of files on stderr, one per line; only the first of very many."""
    if items:
        error(listed(items))


def warning(text: str) -> None:
    """Print a warning on stderr."""
    note(f"warning: {text}")


def shown(text: str, stream: TextIO) -> str:
    """Make the control sequences of a text harmless if the stream is a terminal.

    The text may quote the cluster and its programs.
    """
    return plain(text) if stream.isatty() else text


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


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show a progress bar if stderr is a terminal and there are many objects."""
    hidden = total < _MIN_PROGRESS_OBJECTS or not _shows_progress()
    with (
        live.hidden() if not hidden else nullcontext(),
        click.progressbar(length=total, label=label, file=sys.stderr, hidden=hidden) as bar,
    ):
        yield bar.update


@contextmanager
def transfer(label: str, size: int) -> Iterator[Callable[[int], object]]:
    """Show a progress bar of bytes if stderr is a terminal and the size is large."""
    hidden = size < _MIN_PROGRESS_BYTES or not _shows_progress()
    label = f"{label} ({size / 1e6:,.0f} MB)"
    with (
        live.hidden() if not hidden else nullcontext(),
        click.progressbar(length=max(size, 1), label=label, file=sys.stderr, hidden=hidden) as bar,
    ):
        yield bar.update


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table like kubectl: columns three spaces apart, without lines."""
    lines = [] if style.no_headers else [list(header)]
    lines += [list(map(cell, row)) for row in rows]
    widths = [
        max((len(line[column]) for line in lines), default=0) for column in range(len(header))
    ]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def cell(text: str) -> str:
    """Put untrusted text on one line, so that it cannot look like another row.

    Long text is cut.
    """
    if not text.isprintable():
        text = " ".join(plain(text).split())
    return text if len(text) <= _MAX_CELL_CHARACTERS else f"{text[:_MAX_CELL_CHARACTERS]}…"


def fields(values: Mapping[str, str]) -> list[str]:
    """Format names and values, one pair per line."""
    return [f"{name + ':':<12}{cell(value)}" for name, value in values.items()]


def data(value: object, form: str) -> str:
    """Format a value as JSON or YAML, or with a `jsonpath=` template."""
    if form.startswith(JSONPATH):
        from kubectl_sky.cli import jsonpath

        return jsonpath.render(value, form.removeprefix(JSONPATH))
    if form == "json":
        return json.dumps(value, indent=4, ensure_ascii=False)
    import yaml  # tables do not need it

    simple = json.loads(json.dumps(value))  # the safe dumper rejects subclasses, such as enums
    text: str = yaml.dump(simple, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


def document(kind: str, fields: Mapping[str, object], form: str) -> str:
    """Format the fields of a document, with its API version and kind; see docs/json.md."""
    return data(documents.document(kind, fields), form)


def count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 task`, `3 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class LiveText:
    """Output that shows a text repeatedly; on a terminal also because its ages change."""

    def __init__(self) -> None:
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
            previous = set(self._lines)
            click.echo("\n".join(line for line in lines if line not in previous))
        self._lines = lines

    def _draw(self, lines: list[str]) -> None:
        columns, rows = shutil.get_terminal_size()
        hidden = len(lines) - (rows - 1)
        if hidden > 0:
            lines = [*lines[: rows - 2], f"… and {hidden + 1} more lines"]
        prefix = _HOME if self._has_drawn else _CLEAR + _HOME
        body = "".join(f"{line[:columns]}{_END_OF_LINE}\n" for line in lines)
        click.echo(prefix + body + _BELOW, nl=False)
        self._has_drawn = True
