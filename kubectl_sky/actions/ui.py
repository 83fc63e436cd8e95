"""What an action needs of its user interface: a terminal, a server or a test."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from kubectl_sky.errors import Problem
from kubectl_sky.observe.logs import Origin
from kubectl_sky.spec.dangers import Danger

Advance = Callable[[int], object]  # takes the number of objects or bytes that were processed


class UI(Protocol):
    """Report to the user while an action runs."""

    def problems(self, problems: Sequence[Problem]) -> None:
        """Report problems of files that are not errors."""

    def review(self, dangers: Sequence[Danger]) -> None:
        """Report the risky fields of a file."""

    def note(self, text: str) -> None:
        """Report one line."""

    def notes(self, items: Iterable[object]) -> None:
        """Report several lines."""

    def logs(self, origin: Origin, lines: Sequence[bytes], final_newline: bool) -> None:
        """Report log lines of one node; `final_newline` is False if the last has no newline."""

    def progress(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Show the progress over a number of objects."""

    def transfer(self, label: str, size: int) -> AbstractContextManager[Advance]:
        """Show the progress over a number of bytes."""


class Silent:
    """Report nothing."""

    def problems(self, problems: Sequence[Problem]) -> None:
        """Ignore the problems."""

    def review(self, dangers: Sequence[Danger]) -> None:
        """Ignore the risky fields."""

    def note(self, text: str) -> None:
        """Ignore the line."""

    def notes(self, items: Iterable[object]) -> None:
        """Ignore the lines."""

    def logs(self, origin: Origin, lines: Sequence[bytes], final_newline: bool) -> None:
        """Ignore the log lines."""

    def progress(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Ignore the progress."""
        return nullcontext(lambda count: None)

    def transfer(self, label: str, size: int) -> AbstractContextManager[Advance]:
        """Ignore the progress."""
        return nullcontext(lambda count: None)
