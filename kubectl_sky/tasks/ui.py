"""What an action needs of its user interface: a terminal, a server or a test."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.observe.logs import Lines

if TYPE_CHECKING:
    from kubectl_sky.render.manifests import Manifests
    from kubectl_sky.spec.dangers import Danger
    from kubectl_sky.tasks.submissions import Submitted

Advance = Callable[[int], object]  # takes the number of objects or bytes that were processed


class WaitingLine(Struct, frozen=True):
    """What a task waits for, since when (on the monotonic clock), and its limit in seconds."""

    text: str
    since: float
    limit: float | None = None


class UI:
    """Report to the user while an action runs; by default report nothing.

    `filters_logs` is whether `logs` shows only some of the lines.
    """

    filters_logs = False

    def problems(self, problems: Sequence[Problem]) -> None:
        """Report problems of files that are not errors."""

    def review(self, dangers: "Sequence[Danger]") -> None:
        """Report the risky fields of a file."""

    def note(self, text: str) -> None:
        """Report one line."""

    def notes(self, items: Iterable[object]) -> None:
        """Report several lines."""

    @property
    def live(self) -> bool:
        """Whether `waiting` updates a line; otherwise it adds a line."""
        return False

    def waiting(self, task_id: str, waiting: WaitingLine | None) -> None:
        if waiting:
            self.note(waiting.text)

    def following(self, task_id: str, title: str) -> None:
        """Report the state of a followed task; empty if it is followed no longer."""

    def logs(self, lines: Lines, final_newline: bool) -> None:
        """Report log lines; `final_newline` is False if the last has no newline."""

    def progress(self, label: str, total: int) -> AbstractContextManager[Advance]:
        return nullcontext(lambda count: None)

    def preview(self, manifests: "Manifests") -> None:
        """Show the manifests of a dry run."""

    def submitted(self, submitted: "Submitted") -> None:
        """Show the id of a submit, as soon as everything is sent."""

    def transfer(self, label: str, size: int) -> AbstractContextManager[Advance]:
        return nullcontext(lambda count: None)


@dataclass
class Collected(UI):
    """Keep what an action reports, for an answer."""

    notes_: list[str] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    dangers: "list[Danger]" = field(default_factory=list)
    manifests: "Manifests | None" = None
    result: "Submitted | None" = None

    def problems(self, problems: Sequence[Problem]) -> None:
        self.warnings += problems

    def review(self, dangers: "Sequence[Danger]") -> None:
        self.dangers += dangers

    def note(self, text: str) -> None:
        self.notes_.append(text)

    def notes(self, items: Iterable[object]) -> None:
        self.notes_ += map(str, items)

    def preview(self, manifests: "Manifests") -> None:
        self.manifests = manifests

    def submitted(self, submitted: "Submitted") -> None:
        self.result = submitted

    @property
    def report(self) -> dict[str, Any]:
        """The fields of documents about a file."""
        dangers = [danger.report for danger in self.dangers]
        return {"notes": self.notes_, "warnings": self.warnings, "dangers": dangers}
