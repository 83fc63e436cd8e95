"""Describe what each node of a running task does, and how long it is usually silent."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Annotated

from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.failure import NOTE_PREFIX
from kubectl_sky.words import age
from kubectl_sky.words.documents import Note, Part, always

LINES = 200  # of the end of each log, from which the rhythm is learnt
_RECENT = 20  # of these, whose longest pause counts
_LEAST_SECONDS = 10.0  # of silence, before a node counts as silent
_LONGEST_PAUSES = 2.0  # of the recent lines, which a silence must last
_EARLIER_PAUSES = 1.5  # of those further back, such as of evaluations
_START = 3  # pauses at the beginning, in which programs load and compile
_TWO_STEPS = 2  # nodes that wait for each other are at most one apart; ranks and losses differ more
_MAX_LINE = 200  # characters of the last line
_NUMBER = re.compile(r"\d+")
_NOT_ITS_OWN = re.compile(rf'{NOTE_PREFIX}|(Current thread|Thread) 0x|  File "[^"]*", line \d+ in ')


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
    place: Annotated[str, Note("where its program is, if it is silent")] = ""
    moves: Annotated[bool | None, Note("whether the program goes on there")] = None
    is_behind: Annotated[bool, Note("whether others have printed a later step")] = False

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

    Lines of entry.sh and dumps of `stacks` do not count. A silence is unusual if it is twice as
    long as the longest pause between the last 20 lines, and half as long again as those before.
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
    if not pauses:
        return activity

    settled = pauses[_START:] or pauses
    recent = settled[1 - _RECENT :]
    limit = max(_LEAST_SECONDS, _LONGEST_PAUSES * max(recent), _EARLIER_PAUSES * max(settled))
    return RankActivity(
        rank, restarts, activity.last_output, activity.last_line, median(recent), limit
    )


def find_behind(lines: Mapping[int, str]) -> set[int]:
    """Return the ranks whose last line is of an earlier step than that of the others.

    The lines must be equal but for their numbers, of which one is lower in a minority: the step.
    """
    printed = {rank: line for rank, line in lines.items() if line}
    if len({_NUMBER.sub("#", line) for line in printed.values()}) != 1:
        return set()
    rows = [[int(text) for text in _NUMBER.findall(line)] for line in printed.values()]
    behind = set[int]()
    for column in zip(*rows, strict=True):
        late = {rank for rank, number in zip(printed, column, strict=True) if number < max(column)}
        is_step = len(set(column)) == _TWO_STEPS
        if is_step and len(late) * 2 < len(printed):
            behind |= late
    return behind
