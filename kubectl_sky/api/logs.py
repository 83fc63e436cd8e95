"""Log lines as an iterator: a thread reads them, and a bounded queue hands them over."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event

from kubectl_sky.actions.ui import UI
from kubectl_sky.api.notes import Notes
from kubectl_sky.cluster import parallel
from kubectl_sky.errors import Interrupted
from kubectl_sky.observe.logs import Origin

_MAX_QUEUED = 16  # batches, so that a slow reader slows the logs down
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a node of a task has written; `time` is RFC 3339 in UTC."""

    task: str  # id
    rank: int
    node: str  # display name: node-1
    pod: str
    time: str
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def lines(read: Callable[[UI, Event], object]) -> Iterator[LogLine]:
    """Yield the lines that `read` shows; it stops soon after its event is set.

    Raises what `read` raises, after the lines before it.
    """
    reader = _Reader()
    result = parallel.run_future(reader.run, read, name="logs")
    try:
        while (batch := reader.queue.get()) is not None:
            yield from batch
    finally:
        reader.stop.set()
    result.result()


class _Reader(Notes):
    """Queue log lines, and the end of the logs as None."""

    def __init__(self) -> None:
        self.queue: Queue[list[LogLine] | None] = Queue(_MAX_QUEUED)
        self.stop = Event()

    def run(self, read: Callable[[UI, Event], object]) -> None:
        try:
            read(self, self.stop)
        finally:
            with suppress(Interrupted):
                self._put(None)

    def logs(self, origin: Origin, lines: Sequence[bytes], final_newline: bool) -> None:
        """Queue lines, which begin with their timestamps."""
        batch = []
        for line in lines:
            time, _, text = line.decode(errors="replace").partition(" ")
            batch.append(LogLine(origin.task, origin.rank, origin.title, origin.pod, time, text))
        self._put(batch)

    def _put(self, batch: list[LogLine] | None) -> None:
        """Wait for space. Raises Interrupted when nobody reads any more."""
        while not self.stop.is_set():
            with suppress(Full):
                self.queue.put(batch, timeout=_POLL_SECONDS)
                return
        raise Interrupted("interrupted")
