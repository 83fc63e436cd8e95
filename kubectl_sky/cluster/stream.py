"""A long answer of the server as an iterator of bytes that any thread may close."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Self

import urllib3
from urllib3.exceptions import HTTPError

from kubectl_sky.cluster import failures
from kubectl_sky.cluster.call import Call

_CHUNK = 65536


class Stream:
    """Bytes as they come. Iterating ends at a clean end, and raises ClusterError at a lost line.

    `close` from another thread ends an iteration that waits for bytes.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, call: Call) -> None:
        self._response = response
        self._call = call
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.stream(_CHUNK)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            if self._closed:  # the socket was taken away under the reader, as was asked
                return
            raise failures.unreachable(self._call, error) from None

    def close(self) -> None:
        """Hang up; may be called twice, and from any thread."""
        if self._closed:
            return
        self._closed = True
        connection = self._response.connection
        line = getattr(connection, "sock", None)
        if isinstance(line, socket.socket):
            # closing would wait for a reader; shutting down wakes it
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
        self._response.close()
