"""Retry with exponential backoff while the API server is unreachable."""

import logging
from random import SystemRandom
from threading import Event, Lock
from time import monotonic
from typing import ClassVar
from weakref import WeakSet

from kubectl_sky.errors import ClusterError, Unprocessed, Unreachable

TIMEOUT_SECONDS = 60.0  # an API server restart takes less

_FIRST_DELAY_SECONDS = 0.2
_MAX_DELAY_SECONDS = 5.0
_STABLE_SECONDS = 10.0  # seconds after which a connection counts as successful

LOGGER = "kubectl_sky.waits"

_log = logging.getLogger(LOGGER)


def delay(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after a number of failures: doubled after each."""
    return min(first * 2.0 ** min(failures - 1, 20), longest)


class Backoff:
    """Wait longer after each error; raise the error once errors last for `seconds`.

    They count from `since`, in monotonic time, or else from the first error.
    """

    def __init__(
        self, stop: Event, seconds: float | None = None, since: float | None = None
    ) -> None:
        self.began_at = monotonic()
        self._stop = stop
        self._seconds = TIMEOUT_SECONDS if seconds is None else seconds
        self._failing_since = since
        self._opened: float | None = None
        self._delay = _FIRST_DELAY_SECONDS

    def opened(self) -> None:
        """Record a connection; one without data is not a failure."""
        self._opened = monotonic()

    def reset(self) -> None:
        self._failing_since = None
        self._delay = _FIRST_DELAY_SECONDS

    def wait_or_raise(self, error: ClusterError) -> None:
        """Wait before the next retry, or raise the error after the timeout."""
        self.check(error)
        self.pause()

    def check(self, error: ClusterError) -> None:
        """Raise the error after the timeout."""
        now = monotonic()
        if self._opened is not None and now - self._opened > _STABLE_SECONDS:
            self.reset()
        self._opened = None
        if self._failing_since is None:
            self._failing_since = now
        own = error.seconds if isinstance(error, Unprocessed) else None
        if now - self._failing_since >= (self._seconds if own is None else own):
            raise error

    def pause(self) -> None:
        """Wait before the next retry; setting `stop` ends the wait."""
        self._stop.wait(self._delay * SystemRandom().uniform(0.8, 1.2))
        self._delay = min(self._delay * 2, _MAX_DELAY_SECONDS)


def is_answer(error: ClusterError) -> bool:
    """Whether the API server itself is not away: it refuses a request, or wants it again."""
    if isinstance(error, Unprocessed):
        return error.seconds is not None
    return not isinstance(error, Unreachable)


class Outage:
    """Whether requests of a session wait for the API server. Thread-safe.

    They wait only if it has answered before. When one of them gives up, so do the others, and later
    ones, until it answers again. Those that had begun before Ctrl-C never wait again.
    """

    _interrupted_at: ClassVar[float] = 0.0  # monotonic time of the last Ctrl-C

    _all: ClassVar[WeakSet["Outage"]] = WeakSet()

    def __init__(self) -> None:
        self.has_answered = False
        self.given_up = Event()
        self._noted = False
        self._noted_at = -_STABLE_SECONDS  # in monotonic time
        self._lock = Lock()
        self._all.add(self)

    @property
    def is_hopeless(self) -> bool:
        """Whether requests have waited in vain, or were interrupted."""
        return self._noted and self.given_up.is_set()

    def end(self) -> None:
        """Record an answer."""
        self.has_answered = True
        self._noted = False
        self.given_up.clear()

    def wait_or_raise(self, retries: Backoff, error: Unreachable) -> None:
        """Wait before the next attempt, and say so once; raise the error after the timeout."""
        if self._is_over(retries):
            raise error

        try:
            retries.check(error)
        except Unreachable:
            if self._noted:
                self.given_up.set()
            raise
        if not is_answer(error):
            self._note(error)
        retries.pause()
        if self._is_over(retries):
            raise error

    def _note(self, error: Unreachable) -> None:
        """Say that the server is away, once of requests at the same time."""
        with self._lock:
            is_new = not self._noted and monotonic() - self._noted_at >= _STABLE_SECONDS
            self._noted = True
            if is_new:
                self._noted_at = monotonic()
                _log.warning("waiting for the API server: %s", error.what.rpartition(": ")[2])

    def _is_over(self, retries: Backoff) -> bool:
        """Whether a request waits no more: others may have been answered since Ctrl-C."""
        return self.given_up.is_set() or retries.began_at < Outage._interrupted_at

    @classmethod
    def interrupt(cls) -> None:
        """After Ctrl-C: let no request wait for a server that is away."""
        Outage._interrupted_at = monotonic()
        for outage in list(cls._all):
            outage.given_up.set()
