"""Retry with exponential backoff while the API server is unreachable."""

from random import SystemRandom
from threading import Event
from time import monotonic

from kubectl_sky.errors import ClusterError

TIMEOUT_SECONDS = 60.0  # an API server restart takes less

_FIRST_DELAY_SECONDS = 0.2
_MAX_DELAY_SECONDS = 5.0
_STABLE_SECONDS = 10.0  # seconds after which a connection counts as successful


def delay(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after a number of failures: doubled after each."""
    return min(first * 2.0 ** min(failures - 1, 20), longest)


class Backoff:
    """Wait longer after each error; raise the error once errors last for `seconds`."""

    def __init__(self, stop: Event, seconds: float | None = None) -> None:
        self._stop = stop
        self._seconds = TIMEOUT_SECONDS if seconds is None else seconds
        self._failing_since: float | None = None
        self._opened: float | None = None
        self._delay = _FIRST_DELAY_SECONDS

    def opened(self) -> None:
        """Record a connection; one without data is not a failure."""
        self._opened = monotonic()

    def reset(self) -> None:
        self._failing_since, self._delay = None, _FIRST_DELAY_SECONDS

    def wait_or_raise(self, error: ClusterError) -> None:
        """Wait before the next retry, or raise the error after the timeout."""
        now = monotonic()
        if self._opened is not None and now - self._opened > _STABLE_SECONDS:
            self.reset()
        self._opened = None
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > self._seconds:
            raise error
        self.pause()

    def pause(self) -> None:
        """Wait before the next retry; setting `stop` ends the wait."""
        self._stop.wait(self._delay * SystemRandom().uniform(0.8, 1.2))
        self._delay = min(self._delay * 2, _MAX_DELAY_SECONDS)
