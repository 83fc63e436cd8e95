"""Wait until something becomes true."""

import time
from collections.abc import Callable

_PAUSE = 0.05  # seconds between two checks


def eventually(check: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a check is true, which may also use `assert`; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not _holds(check, late=time.monotonic() > deadline):
        assert time.monotonic() < deadline, f"not true after {seconds} seconds"
        time.sleep(_PAUSE)


def _holds(check: Callable[[], object], late: bool) -> bool:
    try:
        return bool(check())
    except AssertionError:
        if late:
            raise
        return False
