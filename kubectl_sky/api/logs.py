"""Log lines as an iterator: a thread reads them, and a bounded queue hands them over."""

from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event
from typing import Self

from kubectl_sky.api.notes import Notes
from kubectl_sky.api.threads import run_in_thread
from kubectl_sky.cluster import parallel
from kubectl_sky.errors import Interrupted
from kubectl_sky.observe.logs import Lines, Origin
from kubectl_sky.tasks.ui import UI

_MAX_QUEUED = 16  # batches, so that a slow reader slows the logs down
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a node of a task has written."""

    task: str  # id
    rank: int
    node: str  # display name: node-1
    pod: str
    time: str  # RFC 3339 in UTC
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class LogLines(Iterator[LogLine]):
    """Log lines, for `for` and for `async for`. Any thread may close them, which ends them soon."""

    def __init__(self, read: Callable[[UI, Event], object]) -> None:
        self._stop = Event()
        self._lines = _lines(read, self._stop)

    def __next__(self) -> LogLine:
        """Return the next line; after the last one, raise the error of the logs if there is one."""
        return next(self._lines)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogLine:
        """Await the next line."""
        try:
            line = await run_in_thread(self._next)
        except CancelledError:
            self.close()
            raise
        if line is None:
            raise StopAsyncIteration
        return line

    def _next(self) -> LogLine | None:
        """Return the next line, or None after the last: no Future holds StopIteration."""
        return next(self._lines, None)

    def close(self) -> None:
        """End the lines, and their thread."""
        self._stop.set()


def _lines(read: Callable[[UI, Event], object], stop: Event) -> Iterator[LogLine]:
    """Yield the lines that `read` shows, until `stop` is set or nobody needs them any more."""
    reader = _Reader(stop)
    result = parallel.run_future(reader.run, read, name="logs")
    try:
        while not stop.is_set() and (batch := reader.queue.get()) is not None:
            yield from batch
        if stop.is_set():
            return
    finally:
        stop.set()
    result.result()


class _Reader(Notes):
    """Queue log lines, and the end of the logs as None."""

    def __init__(self, stop: Event) -> None:
        self.queue: Queue[list[LogLine] | None] = Queue(_MAX_QUEUED)
        self.stop = stop

    def run(self, read: Callable[[UI, Event], object]) -> None:
        try:
            read(self, self.stop)
        finally:
            with suppress(Interrupted):
                self._put(None)
            with suppress(Full):  # after a stop, for a reader that still waits
                self.queue.put_nowait(None)

    def logs(self, lines: Lines, final_newline: bool) -> None:
        """Queue lines, which begin with their timestamps."""
        self._put([_parse(origin, line) for origin, line in lines])

    def _put(self, batch: list[LogLine] | None) -> None:
        """Wait for space. Raises Interrupted when nobody reads any more."""
        while not self.stop.is_set():
            with suppress(Full):
                self.queue.put(batch, timeout=_POLL_SECONDS)
                return
        raise Interrupted("interrupted")


def _parse(origin: Origin, line: bytes) -> LogLine:
    time, _, text = line.decode(errors="replace").partition(" ")
    return LogLine(origin.task, origin.rank, origin.title, origin.pod, time, text)
