"""Retry while the API server is unreachable, with growing delays, for a bounded time."""

import random
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

from kubectl_sky.errors import ClusterError, Unreachable

SECONDS = 60.0  # an API server that restarts is back within this

_FIRST_DELAY = 0.2
_MAX_DELAY = 5.0
_STABLE = 10.0  # seconds after which a connection counts as one that worked

T = TypeVar("T")


class Backoff:
    """Waits longer from one error to the next; raises the error once they last for `seconds`."""

    def __init__(self, stop: Event, seconds: float | None = None) -> None:
        self._stop = stop
        self._seconds = SECONDS if seconds is None else seconds
        self._failing_since: float | None = None
        self._opened: float | None = None
        self._delay = _FIRST_DELAY

    def opened(self) -> None:
        """Note that the server has answered; if nothing follows, that alone is no failure."""
        self._opened = monotonic()

    def reset(self) -> None:
        """Forget the errors: something has worked."""
        self._failing_since, self._delay = None, _FIRST_DELAY

    def wait_or_raise(self, error: ClusterError) -> None:
        """Wait before the next try, or raise the error if errors have lasted for too long."""
        now = monotonic()
        if self._opened is not None and now - self._opened > _STABLE:
            self.reset()
        self._opened = None
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > self._seconds:
            raise error
        self.pause()

    def pause(self) -> None:
        """Wait before the next try; setting `stop` ends the wait."""
        self._stop.wait(self._delay * random.uniform(0.8, 1.2))
        self._delay = min(self._delay * 2, _MAX_DELAY)


def retry_unreachable(ask: Callable[[], T], stop: Event | None = None) -> T:
    """Ask until the server answers. Raises Unreachable after a minute, or when `stop` is set."""
    stop = stop or Event()
    backoff = Backoff(stop)
    while True:
        try:
            return ask()
        except Unreachable as error:
            if stop.is_set():
                raise
            backoff.wait_or_raise(error)
