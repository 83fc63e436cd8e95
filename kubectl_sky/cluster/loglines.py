"""Cut a pod's log into lines, and remember where reading got to so that it can go on there.

The API always gives the log with timestamps. After a lost connection it is asked again for all
lines since the second before the newest one; as it sends them in the order of the file, the lines
already seen are a prefix of the answer, and their number is what must be skipped.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 1 << 20  # bytes of a line with its timestamp: what a program writes has no bound
_SECOND = 19  # length of 2026-11-21T04:47:04
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_STAMPED = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


class Cutter:
    """Cuts chunks into lines without their newline; carriage returns are part of a line.

    Of a line that is longer than LONGEST its beginning is kept; `cut` says that this happened.
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
        """Return what follows the last newline."""
        return bytes(self._begun)

    def _add(self, part: bytes) -> None:
        room = LONGEST - len(self._begun)
        self._begun += part[:room]
        self.cut = self.cut or len(part) > room


@dataclass
class _Second:
    count: int
    first: bytes  # timestamp of its first line


class Place:
    """How far a log has been read; `last` is the newest timestamp."""

    def __init__(self) -> None:
        self._seconds: dict[bytes, _Second] = {}  # the newest two seconds
        self._zone = b""
        self.last = b""
        self._skip = 0
        self._first = b""
        self.rotated = False

    @property
    def since(self) -> str:
        """The `sinceTime` to ask for; empty if nothing was read yet."""
        return (min(self._seconds) + self._zone).decode() if self._seconds else ""

    def resume(self) -> None:
        """Expect the answer to a request with `since`: lines that were seen come again."""
        self._skip = sum(second.count for second in self._seconds.values())
        self._first = self._seconds[min(self._seconds)].first if self._seconds else b""
        self.rotated = False

    def fresh(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that were not seen before; all have timestamps."""
        if not self._skip or not lines:
            return lines
        if self._first and stamp(lines[0]) != self._first:
            # The file was rotated: what was read first is gone, so only the clock can tell.
            self._skip, self.rotated = 0, True
            last = _key(self.last)
            return [line for line in lines if _key(stamp(line)) > last]
        self._first = b""
        skipped = min(self._skip, len(lines))
        self._skip -= skipped
        return lines[skipped:]

    def advance(self, lines: Sequence[bytes]) -> None:
        """Note that these lines, which have timestamps, were read."""
        match = _STAMP.match(lines[-1])
        if match and match[2] != self._zone:
            self._seconds, self._zone = {}, match[2]
        for second, count in Counter([line[:_SECOND] for line in lines]).items():
            known = self._seconds.get(second)
            if known:
                known.count += count
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
    """Timestamps in order: fractions may have any number of digits."""
    return timestamp[:_SECOND], timestamp[_SECOND:].rstrip(b"Z").lstrip(b".").ljust(9, b"0")


def stamped(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Tell the lines of the log from those that the node wrote in their stead."""
    seconds = {line[:_SECOND] for line in lines}
    if all(_STAMPED.match(second) for second in seconds):
        return lines, []
    good = [line for line in lines if _STAMPED.match(line)]
    return good, [line for line in lines if not _STAMPED.match(line)]


def without_stamps(lines: list[bytes]) -> list[bytes]:
    """Return the lines without their timestamps."""
    return [line.partition(b" ")[2] for line in lines]
