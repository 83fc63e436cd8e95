"""What an action needs of its user interface: a terminal, a server or a test."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kubectl_sky.errors import Problem
from kubectl_sky.observe.logs import Origin

if TYPE_CHECKING:
    from kubectl_sky.actions.apply import Submitted
    from kubectl_sky.render.manifests import Manifests
    from kubectl_sky.spec.dangers import Danger

Advance = Callable[[int], object]  # takes the number of objects or bytes that were processed


class UI:
    """Report to the user while an action runs; by default report nothing."""

    def problems(self, problems: Sequence[Problem]) -> None:
        """Report problems of files that are not errors."""

    def review(self, dangers: "Sequence[Danger]") -> None:
        """Report the risky fields of a file."""

    def note(self, text: str) -> None:
        """Report one line."""

    def notes(self, items: Iterable[object]) -> None:
        """Report several lines."""

    def logs(self, origin: Origin, lines: Sequence[bytes], final_newline: bool) -> None:
        """Report log lines of one node; `final_newline` is False if the last has no newline."""

    def progress(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Show the progress over a number of objects."""
        return nullcontext(lambda count: None)

    def preview(self, manifests: "Manifests") -> None:
        """Show the manifests of a dry run."""

    def submitted(self, submitted: "Submitted") -> None:
        """Show the id of a submit, as soon as everything is sent."""

    def transfer(self, label: str, size: int) -> AbstractContextManager[Advance]:
        """Show the progress over a number of bytes."""
        return nullcontext(lambda count: None)
