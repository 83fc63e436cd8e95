"""Limit what callers use: rates and streams."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from kubectl_sky.server.problems import Rejected

_BURST_SECONDS = 10
_MAX_BUCKETS = 10_000


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


class Streams:
    """Count the open streams of each caller."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        with self._lock:
            return self._open.total()

    @contextmanager
    def open(self, key: str) -> Iterator[None]:
        """Count a stream while the context lasts. Raises Rejected with 429 over the limit."""
        with self._lock:
            if self._open[key] >= self._limit:
                raise Rejected(429, f"more than {self._limit} open streams", "close some", 5)
            self._open[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]
