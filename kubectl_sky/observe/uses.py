"""What time of a task is used for, and the record of it that outlives the logs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kubectl_sky.words.decoding import decoder
from kubectl_sky.words.documents import Part


class Use(StrEnum):
    """What time is used for."""

    QUEUE = "queue"
    START = "start"
    LOADING = "loading"
    STEPS = "steps"
    REPEATED = "repeated"
    STALLS = "stalls"
    DOWN = "down"
    OTHER = "other"
    UNKNOWN = "unknown"


MEANINGS = {
    Use.QUEUE: "until a cluster node was found",
    Use.START: "image, files, meeting the others, setup",
    Use.LOADING: "from the start of run to the first step",
    Use.STEPS: "steps that were done for the first time",
    Use.REPEATED: "steps that were done before a restart already, or were not finished then",
    Use.STALLS: "pauses of more than three steps without output",
    Use.DOWN: "between two attempts",
    Use.OTHER: "work between the steps, such as evaluation, and after the last one",
    Use.UNKNOWN: "of attempts whose log is gone",
}
HOLDS_NO_GPU = (Use.QUEUE, Use.DOWN)

Positive = Annotated[float, Meta(ge=0, le=1e12)]


class UsesRecord(Part, frozen=True):
    """What the time of the first node of a finished task went into: an annotation, as JSON.

    `uses` are seconds, `step_seconds` is the usual time between two step lines.
    """

    uses: Mapping[Use, Positive]
    steps: Annotated[int, Meta(ge=0)] = 0
    step_seconds: Positive | None = None

    @property
    def percent(self) -> float:
        """How much of the time went into new steps."""
        return 100 * self.uses.get(Use.STEPS, 0.0) / sum(self.uses.values())

    @property
    def share_of_gpu_time(self) -> float:
        """Which part of the time in which it held GPUs went into new steps, from 0 to 1."""
        held = sum(seconds for use, seconds in self.uses.items() if use not in HOLDS_NO_GPU)
        return self.uses.get(Use.STEPS, 0.0) / held if held else 0.0

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def read_uses(text: str) -> UsesRecord | None:
    """Return the record of an annotation; None without one, or if it is damaged."""
    try:
        record: UsesRecord = decoder(UsesRecord).decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return record if sum(record.uses.values()) > 0 else None
