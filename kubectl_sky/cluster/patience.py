"""How long a lost connection is borne, and how long to wait between two tries."""

import random
from threading import Event
from time import monotonic

from kubectl_sky.errors import ClusterError

SECONDS = 60.0  # an API server that restarts is back within this

_FIRST = 0.2
_LONGEST = 5.0


class Patience:
    """Bears errors until they have gone on for `seconds`; waits longer from one to the next."""

    def __init__(self, stop: Event, seconds: float | None = None) -> None:
        self._stop = stop
        self._seconds = SECONDS if seconds is None else seconds
        self._since: float | None = None
        self._delay = _FIRST

    def restore(self) -> None:
        """Forget the errors: something has worked."""
        self._since, self._delay = None, _FIRST

    def bear(self, error: ClusterError) -> None:
        """Wait before the next try, or raise the error if it has gone on for too long."""
        now = monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > self._seconds:
            raise error
        self.pause()

    def pause(self) -> None:
        """Wait before the next try; a stop ends the wait."""
        self._stop.wait(self._delay * random.uniform(0.8, 1.2))
        self._delay = min(self._delay * 2, _LONGEST)
