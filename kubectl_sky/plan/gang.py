"""PodGroup settings for gang schedulers."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Gang:
    """All nodes of a task, scheduled together or not at all.

    `scheduler` schedules the pods, `queue` is one of its queues (None: its default), `members` is
    how many pods must start together, and `resources` is their total request, as far as it is
    known.
    """

    scheduler: str
    queue: str | None
    members: int
    resources: Mapping[str, str]
