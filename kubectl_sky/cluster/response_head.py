"""Limit the time until the head of an answer: http.client reads `100 Continue` for ever."""

import io
import time
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class _TimelyReader(io.RawIOBase):
    """Read a socket; until `deadline` (monotonic) all waits together have that time."""

    def __init__(self, sock: Any) -> None:
        self.deadline: float | None = None
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        if self.deadline is not None:
            seconds = self.deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("timed out")
            self._sock.settimeout(seconds)
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class TimelyResponse(HTTPResponse):
    """An answer whose head arrives within the timeout of its socket, however it is cut."""

    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._reader = _TimelyReader(sock)
        self._seconds = sock.gettimeout()
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        if self._seconds is not None:
            self._reader.deadline = time.monotonic() + self._seconds
        super().begin()
        self._reader.deadline = None
