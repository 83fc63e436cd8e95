"""The terminal as the user interface of an action."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kubectl_sky.actions.ui import UI
from kubectl_sky.cli import output
from kubectl_sky.cli.printing import Printer
from kubectl_sky.errors import Problem
from kubectl_sky.observe.logs import Origin

if TYPE_CHECKING:
    from kubectl_sky.spec.dangers import Danger


class Terminal(UI):
    """Print results and logs on stdout, notes and progress on stderr."""

    def __init__(self, printer: Printer | None = None) -> None:
        self._printer = printer or Printer()
        self.dangers: tuple[Danger, ...] = ()

    def problems(self, problems: Sequence[Problem]) -> None:
        """Print problems of files, one per line; only the first of very many."""
        output.problems(problems)

    def review(self, dangers: "Sequence[Danger]") -> None:
        """Print the risky fields of a file, and keep them for the result."""
        self.dangers = tuple(dangers)
        output.notes(dangers)

    def note(self, text: str) -> None:
        """Print one line."""
        output.note(text)

    def notes(self, items: Iterable[object]) -> None:
        """Print several lines."""
        output.notes(items)

    def logs(self, origin: Origin, lines: Sequence[bytes], final_newline: bool) -> None:
        """Print log lines of one node."""
        self._printer(origin, lines, final_newline)

    def progress(self, label: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
        """Show a progress bar if there are many objects."""
        return output.progress(label, total)

    def transfer(self, label: str, size: int) -> AbstractContextManager[Callable[[int], object]]:
        """Show a progress bar of bytes if the size is large."""
        return output.transfer(label, size)
