"""Split a pod's log into lines, and track the position to resume reading.

The log is always requested with timestamps. After a lost connection, all lines since the second
before the newest one are requested again. They come in file order, so the lines already read are a
prefix of the answer, and it is enough to count and skip them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate

MAX_LINE_BYTES = 1 << 20  # with its timestamp; programs may write lines of any length
_SECOND_LENGTH = 19  # length of 2026-11-21T04:47:04
_FRACTION_END = 29  # length of 2026-11-21T04:47:04.123456789
_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE_AT_END = re.compile(rb"(Z|[+-]\d\d:\d\d)$")
_ZONE = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)
_STARTS_WITH_TIMESTAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


class LineSplitter:
    """Split chunks into lines without newlines; carriage returns stay in the line.

    A line longer than MAX_LINE_BYTES is truncated, and `truncated` is set.
    """

    def __init__(self) -> None:
        self.truncated = False
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines and self._partial:
            self._add(lines[0])
            lines[0] = bytes(self._partial)
            self._partial.clear()
        self._add(tail)
        return lines

    def remainder(self) -> bytes:
        return bytes(self._partial)

    def _add(self, part: bytes) -> None:
        space = MAX_LINE_BYTES - len(self._partial)
        self._partial += part[:space]
        self.truncated = self.truncated or len(part) > space


@dataclass
class _SecondCount:
    count: int  # 0 is not known: reading began within this second
    first: bytes  # timestamp of its first line


class ResumePosition:
    """The position in a log; `last` is the newest timestamp read.

    Reading may begin within a second, as with a tail: `partial`. While that second is requested
    again, only timestamps identify new lines.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self._partial = partial
        self._after: tuple[bytes, bytes] | None = None  # skip the lines up to this timestamp
        self._seconds: dict[bytes, _SecondCount] = {}  # the newest two seconds
        self._zone = b""
        self.last = b""
        self._lines_to_skip = 0
        self._first_timestamp = b""
        self.rotated = False

    @property
    def since(self) -> str:
        """The `sinceTime` to request; empty if nothing was read yet."""
        return (min(self._seconds) + self._zone).decode() if self._seconds else ""

    def encode(self) -> str:
        """Return the position as a short text; empty if nothing was read yet."""
        if not self._seconds:
            return ""
        counts = [
            f"{_nanoseconds(second.first):x}.{second.count:x}" for second in self._seconds.values()
        ]
        return "_".join([*counts, f"{_nanoseconds(self.last):x}", self._zone.decode()])

    @classmethod
    def decode(cls, text: str) -> "ResumePosition":
        """Return the position that was encoded. Raises ValueError."""
        *counts, last, zone = text.split("_")
        if not 0 < len(counts) < 3 or not _ZONE.fullmatch(zone):
            raise ValueError(text)
        position = cls()
        position._zone = zone.encode()
        position.last = _timestamp(last, position._zone)
        for entry in counts:
            start, count = entry.split(".")
            first = _timestamp(start, position._zone)
            position._seconds[first[:_SECOND_LENGTH]] = _SecondCount(int(count[:8], 16), first)
        return position

    def resume(self) -> None:
        """Prepare for the answer to `since`, which repeats lines already read."""
        oldest = min(self._seconds, default=b"")
        is_partial = bool(oldest) and not self._seconds[oldest].count
        self._after = _sort_key(self.last) if is_partial else None
        counts = [second.count for second in self._seconds.values()]
        self._lines_to_skip = 0 if is_partial else sum(counts)
        self._first_timestamp = self._seconds[oldest].first if oldest else b""
        self.rotated = False

    def new_lines(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines not read before; all lines have timestamps."""
        if not lines:
            return lines
        if (
            self._lines_to_skip
            and self._first_timestamp
            and _sort_key(timestamp_of(lines[0])) != _sort_key(self._first_timestamp)
        ):
            # The log was rotated and its first lines are gone: only timestamps identify new lines.
            self._lines_to_skip = 0
            self.rotated = True
            self._after = _sort_key(self.last)
        self._first_timestamp = b""
        if self._after is not None:
            after = self._after
            lines = [line for line in lines if _sort_key(timestamp_of(line)) > after]
            if lines:
                self._after = None
            return lines
        count = min(self._lines_to_skip, len(lines))
        self._lines_to_skip -= count
        return lines[count:]

    def advance(self, lines: Sequence[bytes]) -> None:
        """Record that these lines, which have timestamps, were read."""
        match = _TIMESTAMP.match(lines[-1])
        if match and match[2] != self._zone:
            self._seconds = {}
            self._zone = match[2]

        for second, count in Counter([line[:_SECOND_LENGTH] for line in lines]).items():
            existing = self._seconds.get(second)
            if existing:
                existing.count += count if existing.count else 0
            else:
                first = next(line for line in lines if line.startswith(second))
                is_partial = self._partial and not self._seconds
                known_count = 0 if is_partial else count
                self._seconds[second] = _SecondCount(known_count, timestamp_of(first))

        for second in sorted(self._seconds)[:-2]:
            del self._seconds[second]
        self.last = max(self.last, timestamp_of(lines[-1]), key=_sort_key)


def timestamp_of(line: bytes) -> bytes:
    match = _TIMESTAMP.match(line)
    return match[0] if match else b""


def _sort_key(timestamp: bytes) -> tuple[bytes, bytes]:
    """Return a sort key of a timestamp; its fraction may have any number of digits."""
    return timestamp[:_SECOND_LENGTH], timestamp[_SECOND_LENGTH:].rstrip(b"Z").lstrip(b".").ljust(
        9, b"0"
    )


def sort_keys(lines: Sequence[bytes]) -> list[bytes]:
    """Return a time of each line as text that sorts like it: in UTC, and none before the last.

    A kubelet writes nine digits after the second. On a cluster node in UTC they are the key.
    """
    if all(timestamp_of(line)[_FRACTION_END:] == b"Z" for line in (lines[0], lines[-1])):
        times = [line[:_FRACTION_END] for line in lines]
    else:
        times = [_in_utc(timestamp_of(line)) for line in lines]
    in_order = times == sorted(times)  # or a clock was set back
    return times if in_order else list(accumulate(times, max))


def _in_utc(timestamp: bytes) -> bytes:
    zone = _ZONE_AT_END.search(timestamp)
    second, fraction = _sort_key(_ZONE_AT_END.sub(b"", timestamp))
    return b"%s.%s" % (_second_in_utc(second + zone[0] if zone else second), fraction)


@lru_cache(maxsize=1024)  # many lines have the same second
def _second_in_utc(time: bytes) -> bytes:
    try:
        moment = datetime.fromisoformat(time.decode()).astimezone(UTC)
    except (ValueError, OverflowError):  # such as day 99 of a month
        return time[:_SECOND_LENGTH]
    return moment.isoformat()[:_SECOND_LENGTH].encode()


def _nanoseconds(timestamp: bytes) -> int:
    """Return a timestamp as nanoseconds since 1970, without regard to its zone."""
    second, fraction = _sort_key(_ZONE_AT_END.sub(b"", timestamp))
    try:
        moment = datetime.fromisoformat(f"{second.decode()}+00:00")
    except ValueError:  # such as day 99 of a month
        moment = _EPOCH
    return (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int(fraction[:9])


def _timestamp(hexadecimal: str, zone: bytes) -> bytes:
    """Return the timestamp of nanoseconds as hexadecimal digits. Raises ValueError."""
    seconds, fraction = divmod(int(hexadecimal[:16], 16), 10**9)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError(hexadecimal) from None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09}".encode() + zone


def split_messages(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Separate log lines from messages that the kubelet wrote instead of them."""
    seconds = {line[:_SECOND_LENGTH] for line in lines}
    if all(_STARTS_WITH_TIMESTAMP.match(second) for second in seconds):
        return lines, []
    log_lines = [line for line in lines if _STARTS_WITH_TIMESTAMP.match(line)]
    return log_lines, [line for line in lines if not _STARTS_WITH_TIMESTAMP.match(line)]


def without_timestamps(lines: list[bytes]) -> list[bytes]:
    return [line.partition(b" ")[2] for line in lines]
