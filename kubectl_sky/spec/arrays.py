"""`--array`: the numbers of the tasks that one file becomes, and how many run at once."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MOST = 100_000  # indexes that Kubernetes lets a Job have without further conditions

_RANGE = r"[0-9]{1,9}(-[0-9]{1,9})?"
_FORM = re.compile(rf"(?P<numbers>{_RANGE}(,{_RANGE})*)(%(?P<most>[0-9]{{1,9}}))?")
_EXAMPLE = "write it as 0-99, 0,3,7 or 0-99%10"


@dataclass(frozen=True)
class Array:
    """`numbers` is as short as it can be, such as `0-4,7`; `at_once` is at most `count`."""

    numbers: str
    count: int
    at_once: int


def array(text: str) -> Array:
    """Read the flag's value. Raises ValueError with what is wrong and what to write."""
    match = _FORM.fullmatch(text.replace(" ", ""))
    if not match:
        raise ValueError(f"expected numbers; {_EXAMPLE}")
    ranges = sorted(_ranges(match["numbers"]))
    for (_, last), (first, _) in pairwise(ranges):
        if first <= last:
            raise ValueError(f"{first} is named twice; name each number once")
    count = sum(last - first + 1 for first, last in ranges)
    if count > MOST:
        raise ValueError(f"{count:,} tasks are too many; an array has at most {MOST:,}")
    most = count if match["most"] is None else int(match["most"])
    if not most:
        raise ValueError("%0 lets nothing run; write how many may run at once, such as %10")
    return Array(_written(ranges), count, min(most, count))


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ValueError(f"{part} ends before it begins; write {last}-{first}")
        yield int(first), int(last or first)


def _written(ranges: list[tuple[int, int]]) -> str:
    """Write ranges, those together that follow each other."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in joined)
