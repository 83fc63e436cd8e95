"""Read the logs of many pods in order of time: a thread and a bounded queue per log."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Event, Lock
from time import monotonic

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.merge import Block, Log, Order, take
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.tail import Batch, LogOptions, LogSource, Tail, has_terminated
from kubectl_sky.errors import ClusterError, KubeletUnreachable

__all__ = ["MAX_STREAMS", "Block", "Following", "LogOptions", "LogSource", "has_terminated"]

_POLL_INTERVAL = 0.5
_HOLD_SECONDS = 1.0  # seconds that followed logs wait for the existing lines of another one
_MAX_QUEUED_BATCHES = 64  # batches of about 64 KiB at most, so that memory use is bounded
_MAX_STREAMS_BY_NODE = 4  # logs read in parallel while they are written one after the other
_LIMIT_NOTE = "reading {} logs at a time; the remaining logs follow as these end"
MAX_STREAMS = 1000  # concurrent logs: each needs a connection and a thread


class _Stream(Log):
    """A log, and the reader whose thread adds its lines."""

    def __init__(self, tail: Tail, order: Order, lock: Lock) -> None:
        super().__init__(order)
        self.tail = tail
        self.space = Condition(lock)  # notified when the queue has space
        self.nonempty_at = 0.0  # when it last had lines
        self.ended = False


class Following:
    """A set of logs that are read together; logs can be added at any time.

    Existing lines come in order of time, or with `by_node` one log after the other; lines that are
    written meanwhile come as they arrive. A slow reader slows the logs down, so that memory use is
    bounded. If there are more than `max_streams` logs, the later ones wait until others have ended.
    Use it as a context manager.
    """

    def __init__(
        self,
        session: Session,
        options: LogOptions,
        max_streams: int = MAX_STREAMS,
        *,
        by_node: bool = False,
    ) -> None:
        self._session = session
        self._options = options
        self._by_node = by_node

        self._stop = Event()
        self._lock = Lock()
        self._changed = Condition(self._lock)  # notified when there may be another block
        self._streams: dict[LogSource, _Stream] = {}
        self._unmerged = set[_Stream]()  # those with lines, or with existing lines to come
        self._waiting: deque[_Stream] = deque()
        self._reports: deque[Block | ClusterError] = deque()  # on the set itself

        one_by_one = by_node and not options.follow
        self._max_streams = min(max_streams, _MAX_STREAMS_BY_NODE) if one_by_one else max_streams
        self._limit_noted = one_by_one
        self._noted: dict[tuple[str, str], _Stream] = {}  # by pod and note: the log that has it
        self._active = 0  # logs that wait, are read, or have lines
        self._all_added = False
        self.incomplete: list[KubeletUnreachable] = []  # of logs whose rest could not be read

    def add(self, sources: Iterable[LogSource]) -> None:
        """Start to read logs, but for those that were added before; none is merged before all."""
        with self._lock:
            for source in sources:
                if source not in self._streams and not self._stop.is_set():
                    self._add(source)

    def _add(self, source: LogSource) -> None:
        tail = Tail(self._session, source, self._options, self._stop, lambda: self._all_added)
        stream = _Stream(tail, (source.rank, len(self._streams)), self._lock)
        self._streams[source] = stream
        self._active += 1
        if self._active <= self._max_streams:
            self._start(stream)
            return
        self._waiting.append(stream)
        if not self._limit_noted:
            self._limit_noted = True
            note = _LIMIT_NOTE.format(self._max_streams)
            self._reports.append(Block([], note=note, source=source))
            self._changed.notify()

    def _start(self, stream: _Stream) -> None:
        stream.nonempty_at = monotonic()
        self._unmerged.add(stream)
        parallel.run_daemon(self._run, stream, name="log")

    def add_all(self, groups: Iterable[Iterable[LogSource]]) -> None:
        """Add logs as the iterable yields them, then call `finish_adding`."""
        try:
            for sources in groups:
                if self._stop.is_set():
                    return
                self.add(sources)
        except ClusterError as error:
            self._reports.append(error)
        finally:
            self.finish_adding()

    def finish_adding(self) -> None:
        """Mark the set as complete, so that `blocks` ends when all logs have ended."""
        with self._lock:
            self._all_added = True
            self._changed.notify()

    def blocks(self, may_end: Callable[[], bool] = lambda: False) -> Iterator[Block | None]:
        """Yield lines and notes as they can be merged, and None about twice a second when idle.

        If it `may_end`, it ends when all logs that were added are idle. Raises the ClusterError of
        any log; its message names the pod. A log whose cluster node does not respond ends with a
        note, once all logs were added: `incomplete` has its error.
        """
        while not self._is_done():
            block = self._next()
            is_idle = block is None and self._all_added and not (self._unmerged or self._waiting)
            if is_idle and may_end():
                return
            yield block

    def _is_done(self) -> bool:
        return self._all_added and not self._active and not self._reports

    def _next(self) -> Block | None:
        block: Block | None = None

        def has_more() -> bool:
            nonlocal block
            block = self._take()
            return bool(block) or self._is_done()

        with self._lock:
            self._changed.wait_for(has_more, _POLL_INTERVAL)
        return block

    def _take(self) -> Block | None:
        """Take what can be merged now, and make space in the queues."""
        if self._reports:
            report = self._reports.popleft()
            if isinstance(report, ClusterError):
                raise report
            return report

        if not (self._all_added or self._options.follow):
            return None

        now = monotonic()
        streams = [stream for stream in self._unmerged if self._is_merged(stream, now)]
        block = take(streams, by_node=self._by_node)
        for stream in streams:
            if len(stream.items) < self._queue_length():
                stream.space.notify()
            self._retire(stream)
        return block

    def _is_merged(self, stream: _Stream, now: float) -> bool:
        """Return whether a log has lines, or others still wait for one."""
        if stream.items:
            stream.nonempty_at = now
        return not self._options.follow or now < stream.nonempty_at + _HOLD_SECONDS

    def _queue_length(self) -> int:
        return max(_MAX_QUEUED_BATCHES // max(self._active - len(self._waiting), 1), 1)

    def _retire(self, stream: _Stream) -> None:
        """Take a log out that has no lines and only live ones to come; start another at its end."""
        if stream.items or not stream.is_live:
            return
        self._unmerged.discard(stream)
        if stream.ended:
            self._active -= 1
            if self._waiting:
                self._start(self._waiting.popleft())

    def close(self) -> None:
        self._stop.set()
        with self._lock:
            streams = list(self._streams.values())
            for stream in streams:
                stream.space.notify()
        for stream in streams:
            stream.tail.close()

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _run(self, stream: _Stream) -> None:
        try:
            for batch in stream.tail.batches():
                self._put(stream, batch)
        except KubeletUnreachable as error:  # noted in its log: the others go on
            self.incomplete.append(error)
        except ClusterError as error:
            self._put(stream, error)
        finally:
            with self._lock:
                stream.is_live = stream.ended = True
                self._retire(stream)
                self._changed.notify()

    def _is_new(self, stream: _Stream, item: Batch | ClusterError) -> bool:
        """Return whether no other log of the pod has the same note: that it was deleted."""
        if not isinstance(item, Batch) or not item.note:
            return True
        return self._noted.setdefault((item.source.pod, item.note), stream) is stream

    def _put(self, stream: _Stream, item: Batch | ClusterError) -> None:
        with self._lock:
            stream.space.wait_for(
                lambda: len(stream.items) < self._queue_length() or self._stop.is_set()
            )
            if isinstance(item, Batch) and item.is_live:
                stream.is_live = True
                self._retire(stream)
            elif self._is_new(stream, item):
                stream.items.append(item)
                self._unmerged.add(stream)
            if len(stream.items) < 2:  # the merge waits only for logs without lines
                self._changed.notify()
