"""Follow the logs of many pods: a thread per log and one bounded queue."""

import queue
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Event, Lock

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.tail import Batch, LogOptions, LogSource, Tail, has_terminated
from kubectl_sky.errors import ClusterError

__all__ = ["MAX_STREAMS", "Batch", "Following", "LogOptions", "LogSource", "has_terminated"]

_POLL_INTERVAL = 0.5
_MAX_QUEUED_BATCHES = 64  # batches of about 64 KiB at most, so that memory use is bounded
_LOG_ENDED = "ended"
_LIMIT_NOTE = "reading {} logs at a time; the remaining logs follow as these end"
MAX_STREAMS = 1000  # concurrent logs: each needs a connection and a thread


class Following:
    """A set of logs that are followed together; logs can be added at any time.

    A slow reader slows the logs down, so that memory use is bounded. If there are more than
    `max_streams` logs, the later ones wait until others have ended. Use it as a context manager.
    """

    def __init__(
        self, session: Session, options: LogOptions, max_streams: int = MAX_STREAMS
    ) -> None:
        self._session = session
        self._options = options
        self._queue: queue.Queue[Batch | ClusterError | str] = queue.Queue(_MAX_QUEUED_BATCHES)
        self._stop = Event()
        self._lock = Lock()
        self._tails: dict[LogSource, Tail] = {}
        self._waiting: deque[Tail] = deque()
        self._max_streams = max_streams
        self._limit_noted = False
        self._active = 0  # running and waiting logs
        self._all_added = False

    def add(self, source: LogSource) -> bool:
        """Start to follow a log; False if it was already added."""
        tail = Tail(self._session, source, self._options, self._stop)
        with self._lock:
            if source in self._tails or self._stop.is_set():
                return False
            self._tails[source] = tail
            self._active += 1
            if self._active > self._max_streams:
                self._waiting.append(tail)
            else:
                self._start(tail)
            notify, self._limit_noted = (
                not self._limit_noted and bool(self._waiting),
                bool(self._waiting),
            )
        if notify:
            self._put(Batch(source, [], note=_LIMIT_NOTE.format(self._max_streams)))
        return True

    def _start(self, tail: Tail) -> None:
        parallel.run_daemon(self._run, tail, name="log")

    def add_all(self, sources: Iterable[LogSource]) -> None:
        """Add logs as the iterable yields them, then call `finish_adding`."""
        try:
            for source in sources:
                if self._stop.is_set():
                    return
                self.add(source)
        except ClusterError as error:
            self._put(error)
        finally:
            self.finish_adding()

    def finish_adding(self) -> None:
        """Mark the set as complete, so that `batches` ends when all logs have ended."""
        self._all_added = True

    def batches(self) -> Iterator[Batch | None]:
        """Yield lines as they arrive, and None about twice a second when idle.

        Raises the ClusterError of any log; its message names the pod.
        """
        # The order matters: once complete, the number of active logs only decreases.
        while not self._all_added or self._active or not self._queue.empty():
            try:
                item = self._queue.get(timeout=_POLL_INTERVAL)
            except queue.Empty:
                yield None
                continue
            if isinstance(item, ClusterError):
                raise item
            if isinstance(item, Batch):
                yield item
            else:
                with self._lock:
                    self._active -= 1
                    if self._waiting:
                        self._start(self._waiting.popleft())

    def close(self) -> None:
        """Close all logs."""
        self._stop.set()
        with self._lock:
            tails = list(self._tails.values())
        for tail in tails:
            tail.close()

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _run(self, tail: Tail) -> None:
        try:
            for batch in tail.batches():
                self._put(batch)
        except ClusterError as error:
            self._put(error)
        finally:
            self._put(_LOG_ENDED)

    def _put(self, item: Batch | ClusterError | str) -> None:
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._queue.put(item, timeout=_POLL_INTERVAL)
                return
