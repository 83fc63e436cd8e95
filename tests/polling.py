"""Wait until something becomes true."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_FIRST = 0.02
_LONGEST = 0.5  # seconds between two checks


def eventually(
    check: Callable[[], T], seconds: float = 60, message: Callable[[], object] | str = ""
) -> T:
    """Return the first true result of a check, which may also use `assert`.

    Fails after some seconds with the message, or with the last AssertionError of the check.
    """
    deadline = time.monotonic() + seconds
    pause = _FIRST
    while True:
        late = time.monotonic() > deadline
        try:
            if result := check():
                return result
        except AssertionError:
            if late:
                raise
        text = message() if late and callable(message) else message
        assert not late, text or f"not true after {seconds} seconds"
        time.sleep(pause)
        pause = min(pause * 1.2, _LONGEST)
