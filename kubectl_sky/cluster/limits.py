"""What a session asks of an API server at a time, and per second."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_IN_FLIGHT = 16


class Limits:
    """Limits of the requests of one user. Thread-safe.

    `rate` is how many requests may start per second; None for no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._slots = threading.BoundedSemaphore(_MAX_IN_FLIGHT)
        self._lock = threading.Lock()
        self._next = 0.0  # monotonic time at which the next request may start

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until a request may start; others wait while it runs."""
        with self._slots, self.stream():
            yield

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Wait until a stream may start."""
        if self._interval:
            with self._lock:
                now = time.monotonic()
                start = max(now, self._next)
                self._next = start + self._interval
            time.sleep(start - now)
        yield
