"""Find the steps of a training program in the lines that it prints.

A step is a line with a number that counts: `step 100`, `Epoch 3 | Steps: 64`, `iteration 10/ 500`,
a progress bar. Of several kinds of such lines, one stands for the program: of those that are
printed nearly all the time, the most frequent. Those that name an evaluation, a download or a
checkpoint count only if there are no others.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.failure import NOTE_PREFIX
from kubectl_sky.observe.setups import RUN_BEGINS
from kubectl_sky.words import age

_COUNT = re.compile(
    r"""(?:step|iter(?:ation)?|epoch|batch|round)s?['"]?[\s=:\#\[(]{0,12}(\d{1,15}(?:\.\d{1,9})?)
    | (?<![\d./])(\d{1,15})\ ?/\ {0,8}\d{1,15}(?![\d/])  # 10/100, but no date""",
    re.I | re.X,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|[\W_]+")
_OTHER = re.compile(r"\b(eval\w*|valid\w*|test\w*|download\w*|loading|checkpoint\w*)\b", re.I)
_ELAPSED = re.compile(r"\[(?:(\d{1,4}):)?(\d{1,2}):(\d{2})<")  # of a progress bar

_EPOCH = 1e9  # a number of steps that no epoch has
_MAX_KINDS = 64  # of lines with a count, in one log
_MAX_LINE = 2000  # characters in which a count is looked for
_MOST_OF_TIME = 0.8
_LONG = 3.0  # usual times of a step, after which it counts as a pause
_NEARBY = 10  # steps before and after one that tell what is usual there


def read_counts(text: str) -> tuple[float, ...]:
    """Return the numbers of a line that count something: epoch and step, or a step alone."""
    return tuple(float(first or second) for first, second in _COUNT.findall(text[:_MAX_LINE]))


class Steps:
    """The steps of one kind: when each was printed, what it counted, and which line it was."""

    def __init__(self) -> None:
        self.times = array("d")  # seconds since 1970
        self.positions = array("d")  # of the program: they grow, also over epochs
        self.lines = array("q")

    def __len__(self) -> int:
        return len(self.times)

    def add(self, time: float, counts: Sequence[float], line: int) -> None:
        first, second = (0.0, counts[0]) if len(counts) == 1 else counts[:2]
        self.times.append(time)
        self.positions.append(first * _EPOCH + second)
        self.lines.append(line)

    @property
    def has_unnamed_epochs(self) -> bool:
        """Whether it counts from the beginning again and again, without saying how often."""
        return any(after < before and after <= self.positions[0] for before, after in self._pairs)

    @property
    def _pairs(self) -> Iterator[tuple[float, float]]:
        return pairwise(self.positions)

    @property
    def pauses(self) -> list[float]:
        """The seconds between each line and the next."""
        return [after - before for before, after in pairwise(self.times)]

    @property
    def step_seconds(self) -> list[float]:
        """The seconds of each step, also where only every tenth is printed."""
        counts = [after - before for before, after in self._pairs]
        return [
            pause / (count if 1 <= count < _EPOCH else 1)
            for pause, count in zip(self.pauses, counts, strict=True)
        ]


class StepReader:
    """Read a log line by line; keep what tells of its steps."""

    def __init__(self, pattern: str = "") -> None:
        """With a pattern, a step is a line that it matches; its groups are what counts."""
        self._pattern = _compile(pattern) if pattern else None
        self._kinds: dict[tuple[bool, str], Steps] = {}
        self._line = 0
        self.run_began: datetime | None = None
        self.first: datetime | None = None  # time of its first line

    def read(self, line: bytes) -> None:
        """Read a line that begins with its time."""
        stamp, _, text = line.decode(errors="replace").partition(" ")
        time = age.parse(stamp)
        if time is None:
            return
        self.first = self.first or time
        if text.startswith(NOTE_PREFIX):
            self.run_began = time if RUN_BEGINS.match(text) else self.run_began
            return
        self._line += 1
        start = 0.0
        for number, part in enumerate(filter(None, text.split("\r"))):
            elapsed = _read_elapsed(part)
            start = elapsed if number == 0 else start
            self._read_part(time.timestamp() + max(elapsed - start, 0), part)

    def _read_part(self, time: float, text: str) -> None:
        if self._pattern:
            match = self._pattern.search(text[:_MAX_LINE])
            counts = _read_groups(match) if match else ()
            kind = (False, "")
        else:
            counts = read_counts(text)
            kind = _read_kind(text)
        if not counts:
            return
        if kind in self._kinds or len(self._kinds) < _MAX_KINDS:
            self._kinds.setdefault(kind, Steps()).add(time, counts, self._line)

    @property
    def steps(self) -> Steps:
        """The steps of the program; empty if it prints none."""
        known = {kind: steps for kind, steps in self._kinds.items() if len(steps) > 1}
        training = [steps for (is_other, _), steps in known.items() if not is_other]
        kinds = training or list(known.values())
        longest = max((steps.times[-1] - steps.times[0] for steps in kinds), default=0.0)
        lasting = [it for it in kinds if it.times[-1] - it.times[0] >= _MOST_OF_TIME * longest]
        return max(lasting, key=len, default=Steps())


def _compile(pattern: str) -> re.Pattern[str] | None:
    """Return an expression; None for one that is none: annotations may have any text."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def _read_groups(match: re.Match[str]) -> tuple[float, ...]:
    """Return the numbers of a match; empty if a group is none."""
    try:
        return tuple(float(text) for text in match.groups() if text)
    except ValueError:
        return ()


def _read_elapsed(text: str) -> float:
    """Return the seconds that a progress bar says it has taken; 0 if it says none."""
    match = _ELAPSED.search(text[:_MAX_LINE])
    if not match:
        return 0.0
    hours, minutes, seconds = (int(it or 0) for it in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def _read_kind(text: str) -> tuple[bool, str]:
    """Return whether a line is of something else than training, and the words before its count."""
    text = text[:_MAX_LINE]
    count = _COUNT.search(text)
    head = plain(text[: count.end()]) if count else ""
    return bool(_OTHER.search(text)), _NUMBER.sub(" ", head)


def usual_pause(pauses: Sequence[float]) -> float:
    """Return how long a step usually takes, in seconds; 0 if that is not known."""
    return median(pauses) if pauses else 0.0


def is_long(pauses: Sequence[float], index: int, usual: float) -> bool:
    """Return whether a step took longer than three usual ones, also those beside it."""
    if pauses[index] <= _LONG * usual:
        return False
    before = pauses[max(index - _NEARBY, 0) : index]
    nearby = [*before, *pauses[index + 1 : index + 1 + _NEARBY]]
    return not nearby or pauses[index] > _LONG * median(nearby)
