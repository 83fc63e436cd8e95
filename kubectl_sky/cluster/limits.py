"""What a session asks of an API server at a time, and per second."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

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
    def start(self, *, streamed: bool) -> Iterator[None]:
        """Wait until a request may start; others wait while it runs, unless it is a stream.

        The log of a silent container answers only with its first line.
        """
        with nullcontext() if streamed else self._slots:
            if self._interval:
                with self._lock:
                    now = time.monotonic()
                    start = max(now, self._next)
                    self._next = start + self._interval
                time.sleep(start - now)
            yield
