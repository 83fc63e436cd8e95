"""A text that changes: drawn again in place on a terminal, its new lines elsewhere."""

import shutil
import sys

import click

from kubectl_sky.cli.output import shown

_CLEAR, _HOME, _END_OF_LINE, _BELOW = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """Where a text is shown again and again."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._begun = False
        self._lines: list[str] = []

    def show(self, text: str) -> None:
        """Show the text as it is now; what is as it was is not written again."""
        lines = shown(text, sys.stdout).splitlines()
        if lines == self._lines:
            return
        if self._terminal:
            self._draw(lines)
        else:
            before = set(self._lines)
            click.echo("\n".join(line for line in lines if line not in before))
        self._lines = lines

    def _draw(self, lines: list[str]) -> None:
        columns, rows = shutil.get_terminal_size()
        left = len(lines) - (rows - 1)
        if left > 0:
            lines = [*lines[: rows - 2], f"… and {left + 1} more lines"]
        begin = _HOME if self._begun else _CLEAR + _HOME
        cut = "".join(f"{line[:columns]}{_END_OF_LINE}\n" for line in lines)
        click.echo(begin + cut + _BELOW, nl=False)
        self._begun = True
