"""What commands print: tables for people, JSON, YAML and names for programs."""

import json
from collections.abc import Iterable, Sequence

import click


def out(text: str) -> None:
    """A result, on stdout."""
    click.echo(text)


def note(text: str) -> None:
    """A note, on stderr."""
    click.echo(text, err=True)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as kubectl writes them: upper case, three spaces apart, nothing drawn."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def data(value: object, form: str) -> str:
    """A value as JSON or YAML."""
    if form == "json":
        return json.dumps(value, indent=4, ensure_ascii=False)
    import yaml  # tables need none

    text: str = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


def count(number: int, noun: str) -> str:
    """`1 task`, `3 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
