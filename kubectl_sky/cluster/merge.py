"""Merge logs in order of time, as far as their lines were read."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import repeat

from msgspec import Struct

from kubectl_sky.cluster.tail import Batch, LogSource
from kubectl_sky.errors import ClusterError

_MAX_LINES = 10_000  # of a block, but at least some of each log
_MIN_LINES = 100

Order = tuple[int, int]  # of logs: decides between lines of the same time


class Block(Struct, frozen=True):
    """Lines of several logs in order; or a note on the log `source`.

    `last` has the last line of each log. `final_newline` is False if the last line ends its log
    without a newline.
    """

    lines: list[tuple[LogSource, bytes]]
    last: Mapping[LogSource, bytes] = {}
    final_newline: bool = True
    note: str = ""
    source: LogSource | None = None


class Log:
    """What was read of a log and not merged yet.

    Other logs wait for its next line unless it `is_live`: all its existing lines were read.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.items: deque[Batch | ClusterError] = deque()
        self.is_live = False
        self._start = 0  # the first line of the first batch that was not taken

    def end(self, batch: Batch, count: int) -> tuple[bytes, Order]:
        """Return the place of the last one of the next lines, as far as they were read."""
        return batch.times[min(self._start + count, len(batch.times)) - 1], self.order

    def take(self, batch: Batch, end: tuple[bytes, Order]) -> tuple[list[bytes], list[bytes]]:
        """Take the lines of the first batch up to a place; return their times, too."""
        bisect = bisect_right if self.order <= end[1] else bisect_left
        start = self._start
        stop = bisect(batch.times, end[0], self._start)
        self._start = stop
        if stop == len(batch.lines):
            self._start = 0
            self.items.popleft()
        return batch.lines[start:stop], batch.times[start:stop]


def take(logs: Iterable[Log], *, by_node: bool) -> Block | None:
    """Take lines that come before all unknown ones; None if there are none.

    Lines of one log stay in their order. Raises the error of a log.
    """
    ordered = sorted(logs, key=lambda log: log.order)[: 1 if by_node else None]
    batches: list[tuple[Log, Batch]] = []
    for log in ordered:
        if not log.items:
            return None
        item = log.items[0]
        if isinstance(item, ClusterError):
            raise item
        if item.note:
            log.items.popleft()
            return Block([], note=item.note, source=item.source)
        batches.append((log, item))
    return _merge(batches) if batches else None


def _merge(batches: list[tuple[Log, Batch]]) -> Block:
    count = _MAX_LINES // len(batches) + _MIN_LINES
    end = min(log.end(batch, count) for log, batch in batches)
    lines: list[tuple[LogSource, bytes]] = []
    times: list[bytes] = []
    last: dict[LogSource, bytes] = {}

    for log, batch in batches:
        taken, taken_times = log.take(batch, end)
        if taken:
            last[batch.source] = taken[-1]
        lines += zip(repeat(batch.source), taken)
        times += taken_times

    if len(batches) > 1:
        lines = [lines[index] for index in sorted(range(len(times)), key=times.__getitem__)]

    unfinished = [batch.source for _, batch in batches if not batch.final_newline]
    return Block(lines, last, final_newline=lines[-1][0] not in unfinished)
