"""Follow the logs of many pods at once: one thread a log, one bounded queue to the reader."""

import queue
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Event, Lock, Thread

from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.tail import Batch, LogOptions, LogSource, Tail
from kubectl_sky.errors import ClusterError

__all__ = ["MOST", "Batch", "Following", "LogOptions", "LogSource"]

_TICK = 0.5
_AHEAD = 64  # batches of at most about 64 KiB: the memory does not grow with the logs
_ENDED = "ended"
_FULL = "{} logs are read at a time; the others follow when one of these has ended"
MOST = 1000  # logs that are read at a time: each is a connection and a thread


class Following:
    """A set of logs that are read together, to which logs can be added at any time.

    A reader that is slow slows the logs down, and nothing piles up. Of more than `most` logs the
    later ones wait until others have ended. Use it in a `with`.
    """

    def __init__(self, session: Session, options: LogOptions, most: int = MOST) -> None:
        self._session = session
        self._options = options
        self._queue: queue.Queue[Batch | ClusterError | str] = queue.Queue(_AHEAD)
        self._stop = Event()
        self._lock = Lock()
        self._tails: dict[LogSource, Tail] = {}
        self._waiting: deque[Tail] = deque()
        self._most = most
        self._full = False
        self._active = 0  # logs that are read, and those that wait for it
        self._complete = False

    def add(self, source: LogSource) -> bool:
        """Begin to read a log; False if it is, or was, read already."""
        tail = Tail(self._session, source, self._options, self._stop)
        with self._lock:
            if source in self._tails or self._stop.is_set():
                return False
            self._tails[source] = tail
            self._active += 1
            if self._active > self._most:
                self._waiting.append(tail)
            else:
                self._begin(tail)
            tell, self._full = not self._full and bool(self._waiting), bool(self._waiting)
        if tell:
            self._put(Batch(source, [], note=_FULL.format(self._most)))
        return True

    def _begin(self, tail: Tail) -> None:
        Thread(target=self._run, args=(tail,), name="log", daemon=True).start()

    def add_all(self, sources: Iterable[LogSource]) -> None:
        """Add logs as they appear, and then say that there are no more."""
        try:
            for source in sources:
                if self._stop.is_set():
                    return
                self.add(source)
        except ClusterError as error:
            self._put(error)
        finally:
            self.no_more()

    def no_more(self) -> None:
        """Say that no log will be added, so that `batches` ends with those that are read."""
        self._complete = True

    def batches(self) -> Iterator[Batch | None]:
        """Yield lines as they come, and None about twice a second when there are none.

        Raises the ClusterError of any log, which names its pod.
        """
        # asked in this order: once complete, the number of active logs only falls
        while not self._complete or self._active or not self._queue.empty():
            try:
                item = self._queue.get(timeout=_TICK)
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
                        self._begin(self._waiting.popleft())

    def close(self) -> None:
        """Hang up on all logs."""
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
            self._put(_ENDED)

    def _put(self, item: Batch | ClusterError | str) -> None:
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._queue.put(item, timeout=_TICK)
                return
