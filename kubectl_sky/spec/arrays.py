"""Parse `--array`: the indexes of the tasks, and how many run at once."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_INDEXES = 100_000  # indexes that Kubernetes allows a Job without further conditions

_RANGE = r"[0-9]{1,9}(-[0-9]{1,9})?"
_FORM = re.compile(rf"(?P<numbers>{_RANGE}(,{_RANGE})*)(%(?P<most>[0-9]{{1,9}}))?")
_EXAMPLE = "write it as 0-99, 0,3,7 or 0-99%10"


@dataclass(frozen=True)
class Array:
    """The indexes of an array of tasks.

    `numbers` has the shortest form, such as `0-4,7`; `at_once` is at most `count`.
    """

    numbers: str
    count: int
    at_once: int


def array(text: str) -> Array:
    """Parse the flag's value. Raises ValueError with the reason and an example."""
    match = _FORM.fullmatch(text.replace(" ", ""))
    if not match:
        raise ValueError(f"expected numbers; {_EXAMPLE}")
    ranges = sorted(_ranges(match["numbers"]))
    for (_, last), (first, _) in pairwise(ranges):
        if first <= last:
            raise ValueError(f"{first} is named twice; name each number once")
    count = sum(last - first + 1 for first, last in ranges)
    if count > MAX_INDEXES:
        raise ValueError(f"{count:,} tasks are too many; an array has at most {MAX_INDEXES:,}")
    limit = count if match["most"] is None else int(match["most"])
    if not limit:
        raise ValueError("%0 lets nothing run; write how many may run at once, such as %10")
    return Array(_written(ranges), count, min(limit, count))


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ValueError(f"{part} ends before it begins; write {last}-{first}")
        yield int(first), int(last or first)


def _written(ranges: list[tuple[int, int]]) -> str:
    """Format the ranges; merge adjacent ones."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in joined)
