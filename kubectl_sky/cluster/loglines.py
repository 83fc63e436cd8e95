"""Split a pod's log into lines, and track the position to resume reading.

The log is always requested with timestamps. After a lost connection, all lines since the second
before the newest one are requested again. They come in file order, so the lines already read are a
prefix of the answer, and it is enough to count and skip them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 1 << 20  # bytes of a line with its timestamp; programs may write lines of any length
_SECOND = 19  # length of 2026-11-21T04:47:04
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_STAMPED = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


class Cutter:
    """Split chunks into lines without newlines; carriage returns stay in the line.

    A line longer than LONGEST is truncated, and `cut` is set.
    """

    def __init__(self) -> None:
        self.cut = False
        self._begun = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk."""
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines and self._begun:
            self._add(lines[0])
            lines[0] = bytes(self._begun)
            self._begun.clear()
        self._add(tail)
        return lines

    def rest(self) -> bytes:
        """Return the text after the last newline."""
        return bytes(self._begun)

    def _add(self, part: bytes) -> None:
        space = LONGEST - len(self._begun)
        self._begun += part[:space]
        self.cut = self.cut or len(part) > space


@dataclass
class _Second:
    count: int
    first: bytes  # timestamp of its first line


class Place:
    """The position in a log; `last` is the newest timestamp read."""

    def __init__(self) -> None:
        self._seconds: dict[bytes, _Second] = {}  # the newest two seconds
        self._zone = b""
        self.last = b""
        self._skip = 0
        self._first = b""
        self.rotated = False

    @property
    def since(self) -> str:
        """The `sinceTime` to request; empty if nothing was read yet."""
        return (min(self._seconds) + self._zone).decode() if self._seconds else ""

    def resume(self) -> None:
        """Prepare for the answer to `since`, which repeats lines already read."""
        self._skip = sum(second.count for second in self._seconds.values())
        self._first = self._seconds[min(self._seconds)].first if self._seconds else b""
        self.rotated = False

    def fresh(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines not read before; all lines have timestamps."""
        if not self._skip or not lines:
            return lines
        if self._first and stamp(lines[0]) != self._first:
            # The log was rotated and its first lines are gone: only timestamps identify new lines.
            self._skip, self.rotated = 0, True
            newest = _key(self.last)
            return [line for line in lines if _key(stamp(line)) > newest]
        self._first = b""
        count = min(self._skip, len(lines))
        self._skip -= count
        return lines[count:]

    def advance(self, lines: Sequence[bytes]) -> None:
        """Record that these lines, which have timestamps, were read."""
        match = _STAMP.match(lines[-1])
        if match and match[2] != self._zone:
            self._seconds, self._zone = {}, match[2]
        for second, count in Counter([line[:_SECOND] for line in lines]).items():
            existing = self._seconds.get(second)
            if existing:
                existing.count += count
            else:
                first = next(line for line in lines if line.startswith(second))
                self._seconds[second] = _Second(count, stamp(first))
        for second in sorted(self._seconds)[:-2]:
            del self._seconds[second]
        self.last = max(self.last, stamp(lines[-1]), key=_key)


def stamp(line: bytes) -> bytes:
    """Return the timestamp at the start of a line; empty if there is none."""
    match = _STAMP.match(line)
    return match[0] if match else b""


def _key(timestamp: bytes) -> tuple[bytes, bytes]:
    """Return a sort key of a timestamp; its fraction may have any number of digits."""
    return timestamp[:_SECOND], timestamp[_SECOND:].rstrip(b"Z").lstrip(b".").ljust(9, b"0")


def stamped(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Separate log lines from messages that the kubelet wrote instead of them."""
    seconds = {line[:_SECOND] for line in lines}
    if all(_STAMPED.match(second) for second in seconds):
        return lines, []
    log_lines = [line for line in lines if _STAMPED.match(line)]
    return log_lines, [line for line in lines if not _STAMPED.match(line)]


def without_stamps(lines: list[bytes]) -> list[bytes]:
    """Return the lines without their timestamps."""
    return [line.partition(b" ")[2] for line in lines]
