"""Limit what callers use: rates, turns and streams."""

import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from kubectl_sky_server.rest.problems import Rejected

_BURST_SECONDS = 10
_MAX_BUCKETS = 10_000
_MAX_WAIT_SECONDS = 5.0  # for a turn

End = Callable[[], object]


class Rates:
    """A token bucket for each key, such as a user; bounded in number."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(per_second * _BURST_SECONDS, 1.0)
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, time

    def take(self, key: str) -> None:
        """Count a request. Raises Rejected with 429 if there were too many."""
        with self._lock:
            now = monotonic()
            level, changed_at = self._buckets.get(key, (self._burst, 0.0))
            level = min(self._burst, level + (now - changed_at) * self._per_second)
            if level < 1:
                seconds = int((1 - level) / self._per_second) + 1
                raise Rejected(429, "too many requests", f"try again in {seconds} s", seconds)
            self._buckets[key] = level - 1, now
            self._buckets.move_to_end(key)
            while len(self._buckets) > _MAX_BUCKETS:
                self._buckets.popitem(last=False)


class Turns:
    """Turns of each key, such as an address: a burst at once, then one after the other.

    Who comes first is first; nobody waits long.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = monotonic) -> None:
        self._interval = 1 / per_second
        self._burst = max(_BURST_SECONDS - self._interval, 0.0)
        self._clock = clock
        self._next: OrderedDict[str, float] = OrderedDict()  # when the next turn is

    def take(self, key: str) -> float:
        """Take a turn; return in how many seconds it is. Raises Rejected with 429."""
        now = self._clock()
        turn = max(self._next.get(key, 0.0), now - self._burst)
        seconds = max(turn - now, 0.0)
        if seconds > _MAX_WAIT_SECONDS:
            raise Rejected(429, "too many wrong tokens", "try again later", int(seconds) + 1)
        self._next[key] = turn + self._interval
        self._next.move_to_end(key)
        while len(self._next) > _MAX_BUCKETS:
            self._next.popitem(last=False)
        return seconds

    def give_back(self, key: str) -> None:
        """Give back a turn that has cost nothing."""
        if key in self._next:
            self._next[key] -= self._interval


class Streams:
    """The open streams of each caller, and of each session of a browser."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._ends: dict[str, set[End]] = defaultdict(set)  # by the id of a session

    @property
    def total(self) -> int:
        with self._lock:
            return self._open.total()

    @contextmanager
    def open(self, user: str, session: str = "", end: End = lambda: None) -> Iterator[None]:
        """Count a stream while the context lasts. Raises Rejected with 429 over the limit."""
        with self._lock:
            if self._open[user] >= self._limit:
                raise Rejected(429, f"more than {self._limit} open streams", "close some", 5)
            self._open[user] += 1
            self._ends[session].add(end)

        try:
            yield
        finally:
            with self._lock:
                self._open[user] -= 1
                if not self._open[user]:
                    del self._open[user]
                self._ends[session].discard(end)
                if not self._ends[session]:
                    del self._ends[session]

    def end(self, session: str) -> None:
        """End the streams of a session, in the thread of the event loop; "" is none."""
        with self._lock:
            ends = list(self._ends.get(session, ())) if session else []
        for end in ends:
            end()
