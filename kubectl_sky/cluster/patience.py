"""How long a lost connection is borne, and how long to wait between two tries."""

import random
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

from kubectl_sky.errors import ClusterError, Unreachable

SECONDS = 60.0  # an API server that restarts is back within this

_FIRST = 0.2
_LONGEST = 5.0
_HELD = 10.0  # seconds: a connection that was there for so long was a good one

T = TypeVar("T")


class Patience:
    """Bears errors until they have gone on for `seconds`; waits longer from one to the next."""

    def __init__(self, stop: Event, seconds: float | None = None) -> None:
        self._stop = stop
        self._seconds = SECONDS if seconds is None else seconds
        self._since: float | None = None
        self._opened: float | None = None
        self._delay = _FIRST

    def opened(self) -> None:
        """Note that the server has answered; if nothing comes, that alone is no failure."""
        self._opened = monotonic()

    def restore(self) -> None:
        """Forget the errors: something has worked."""
        self._since, self._delay = None, _FIRST

    def bear(self, error: ClusterError) -> None:
        """Wait before the next try, or raise the error if it has gone on for too long."""
        now = monotonic()
        if self._opened is not None and now - self._opened > _HELD:
            self.restore()
        self._opened = None
        if self._since is None:
            self._since = now
        if now - self._since > self._seconds:
            raise error
        self.pause()

    def pause(self) -> None:
        """Wait before the next try; a stop ends the wait."""
        self._stop.wait(self._delay * random.uniform(0.8, 1.2))
        self._delay = min(self._delay * 2, _LONGEST)


def persist(ask: Callable[[], T], stop: Event | None = None) -> T:
    """Ask until the server answers. Raises Unreachable when it stays away, or a stop is set."""
    stop = stop or Event()
    patience = Patience(stop)
    while True:
        try:
            return ask()
        except Unreachable as error:
            if stop.is_set():
                raise
            patience.bear(error)
