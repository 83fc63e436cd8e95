"""What a scheduler that starts all nodes of a task or none is told of them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Gang:
    """All nodes of a task, as one thing to find room for.

    `scheduler` places the pods, `queue` is one of its own (None: its usual one), `members` is how
    many pods have to start at once, and `resources` is what they request together, as far as is
    known.
    """

    scheduler: str
    queue: str | None
    members: int
    resources: Mapping[str, str]
