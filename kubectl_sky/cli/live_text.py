"""Show a changing text: redraw it on a terminal, else print only its new lines."""

import shutil
import sys

import click

from kubectl_sky.cli.output import shown

_CLEAR, _HOME, _END_OF_LINE, _BELOW = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"


class LiveText:
    """Output that shows a text repeatedly."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._has_drawn = False
        self._lines: list[str] = []

    def show(self, text: str) -> None:
        """Show the current text; an unchanged text is not written again."""
        lines = shown(text, sys.stdout).splitlines()
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
