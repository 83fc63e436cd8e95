"""Describe what each node of a running task does, and how long it is usually silent."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Annotated

from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.failure import NOTE_PREFIX
from kubectl_sky.observe.steps import read_counts
from kubectl_sky.words import age
from kubectl_sky.words.documents import Note, Part, always

LINES = 200  # of the end of each log, from which the rhythm is learnt
_RECENT = 20  # of these, whose longest pause counts
_LEAST_SECONDS = 10.0  # of silence, before a node counts as silent
_LONGEST_PAUSES = 2.0  # of the recent lines, which a silence must last
_EARLIER_PAUSES = 1.5  # of those further back, such as of evaluations
_START = 3  # pauses at the beginning, in which programs load and compile
MIN_LINES = _START + 2  # without which a node has no rhythm
_MAX_LINE = 200  # characters of the last line
_NOT_ITS_OWN = re.compile(
    rf'{NOTE_PREFIX}|(Current thread|Thread) 0x|  File "[^"]*", line \d+ in |  \.\.\.|  <|\s*$'
)


class RankActivity(Part, frozen=True):
    """What a running node does. Fields that are not known are left out."""

    rank: int
    restarts: int = always(0)
    last_output: Annotated[str, Note("when it printed its last line; never, if not set")] = ""
    last_line: Annotated[str, Note("what it printed last")] = ""
    interval: Annotated[float | None, Note("usual seconds between two of its lines")] = None
    limit: Annotated[float | None, Note("seconds of silence that are unusual for it")] = None
    cpus: Annotated[float | None, Note("that it uses, by the metrics API")] = None
    gpu_percent: Annotated[float | None, Note("mean utilization of its GPUs")] = None
    position: Annotated[str, Note("where its program is, if it is silent")] = ""
    waits: Annotated[bool, Note("whether it waits for others there")] = False
    moves: Annotated[bool | None, Note("whether the program goes on")] = None
    is_busy: Annotated[bool | None, Note("whether it uses a processor")] = None
    is_behind: Annotated[bool, Note("whether others have printed a later step")] = False
    flight_recorder: Annotated[
        str, Note("which collective a process of it has not begun, by PyTorch's flight recorder")
    ] = ""

    @property
    def usage(self) -> str:
        cpus = "" if self.cpus is None else f"; it uses {self.cpus:.3g} CPUs"
        return cpus + ("" if self.gpu_percent is None else f"; its GPUs: {self.gpu_percent:.0f}%")

    def silence(self, now: datetime) -> timedelta | None:
        """Return since when it has printed nothing; None if it has never printed."""
        last = age.parse(self.last_output)
        return now - last if last else None


def read_rhythm(rank: int, restarts: int, lines: Sequence[str]) -> RankActivity:
    """Return what the last lines of a log, with timestamps, tell of a node.

    Lines of entry.sh and dumps of `stacks` do not count, nor does how a program begins. A silence
    is unusual if it is twice as long as the longest pause between the last 20 lines, and half as
    long again as those before.
    """
    pairs = [line.partition(" ") for line in lines]
    known = [
        (at, text)
        for time, _, text in pairs
        if not _NOT_ITS_OWN.match(text) and (at := age.parse(time))
    ]
    if not known:
        return RankActivity(rank, restarts)

    last, text = known[-1]
    pauses = [(after - before).total_seconds() for (before, _), (after, _) in pairwise(known)]
    activity = RankActivity(
        rank, restarts, age.timestamp(last), " ".join(plain(text).split())[:_MAX_LINE]
    )
    settled = pauses[_START:]
    if not settled:
        return activity
    recent = settled[1 - _RECENT :]
    limit = max(_LEAST_SECONDS, _LONGEST_PAUSES * max(recent), _EARLIER_PAUSES * max(settled))
    return RankActivity(
        rank, restarts, activity.last_output, activity.last_line, median(recent), limit
    )


def find_behind(lines: Mapping[int, str]) -> set[int]:
    """Return the ranks whose last line is one step before that of the others, if they are few."""
    steps = {rank: read_counts(line) for rank, line in lines.items() if line}
    if len({len(numbers) for numbers in steps.values()}) != 1:
        return set()
    latest = max(steps.values())
    before = [(*latest[:-1], latest[-1] - 1)] if latest else []
    if not set(steps.values()) <= {latest, *before}:
        return set()
    behind = {rank for rank, numbers in steps.items() if numbers != latest}
    return behind if len(behind) * 2 < len(steps) else set()
