"""What commands print: tables for people, JSON, YAML and names for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from kubectl_sky.errors import Problem, listed
from kubectl_sky.observe.escapes import plain

JSONPATH = "jsonpath="
_CELL = 1000  # characters of one in a table
_QUICK = 50  # objects that are sent within a second
_QUICK_BYTES = 20_000_000  # that are read within one


def out(text: str) -> None:
    """A result, on stdout."""
    click.echo(shown(text, sys.stdout))


def note(text: str) -> None:
    """A note, on stderr."""
    click.echo(shown(text, sys.stderr), err=True)


def notes(items: Iterable[object]) -> None:
    """Notes, one a line, on stderr."""
    for item in items:
        note(str(item))


def problems(items: Sequence[Problem]) -> None:
    """Problems of files, one a line, on stderr; of very many only the first."""
    if items:
        note(listed(items))


def warning(text: str) -> None:
    """A warning, on stderr."""
    note(f"warning: {text}")


def shown(text: str, stream: TextIO) -> str:
    """A text that may quote the cluster and its programs, so that it does not act on a terminal."""
    return plain(text) if stream.isatty() else text


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[object], None]]:
    """A bar on stderr where that is a terminal and there is something to wait for."""
    quick = total < _QUICK or not sys.stderr.isatty()
    with click.progressbar(length=total, label=label, file=sys.stderr, hidden=quick) as bar:
        yield lambda done: bar.update(1)


@contextmanager
def transfer(label: str, size: int) -> Iterator[Callable[[int], object]]:
    """A bar of bytes on stderr where that is a terminal and there are many."""
    quick = size < _QUICK_BYTES or not sys.stderr.isatty()
    label = f"{label} ({size / 1e6:,.0f} MB)"
    with click.progressbar(length=max(size, 1), label=label, file=sys.stderr, hidden=quick) as bar:
        yield bar.update


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as kubectl writes them: upper case, three spaces apart, nothing drawn."""
    lines = [list(header), *(list(map(cell, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def cell(text: str) -> str:
    """A text that may be another's, on one line: it cannot look like a row of its own."""
    if not text.isprintable():
        text = " ".join(plain(text).split())
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"


def fields(values: Mapping[str, str]) -> list[str]:
    """Lines of names and values."""
    return [f"{name + ':':<12}{cell(value)}" for name, value in values.items()]


def data(value: object, form: str) -> str:
    """A value as JSON or YAML, or what a `jsonpath=` template makes of it."""
    if form.startswith(JSONPATH):
        from kubectl_sky.cli import jsonpath

        return jsonpath.written(value, form.removeprefix(JSONPATH))
    if form == "json":
        return json.dumps(value, indent=4, ensure_ascii=False)
    import yaml  # tables need none

    simple = json.loads(json.dumps(value))  # the safe dumper knows no subclasses, such as enums
    text: str = yaml.dump(simple, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


def count(number: int, noun: str) -> str:
    """`1 task`, `3 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
