"""What an action reports while it runs goes to the logger `kubectl_sky`, which prints nothing."""

import logging
from collections.abc import Iterable, Sequence

from kubectl_sky.errors import Problem
from kubectl_sky.tasks.ui import UI, Collected

LOG = logging.getLogger("kubectl_sky")
LOG.addHandler(logging.NullHandler())  # otherwise Python prints warnings on stderr


class Notes(UI):
    """Log the notes of an action."""

    def problems(self, problems: Sequence[Problem]) -> None:
        """Log problems of files that are not errors."""
        super().problems(problems)
        for problem in problems:
            LOG.warning("%s", problem)

    def note(self, text: str) -> None:
        """Log a note."""
        super().note(text)
        LOG.info("%s", text)

    def notes(self, items: Iterable[object]) -> None:
        """Log several notes."""
        for item in items:
            self.note(str(item))


class Report(Notes, Collected):
    """Log what an action reports, and keep it."""
