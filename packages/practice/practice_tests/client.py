"""Single connections to the server of a practice cluster, and what they use there."""

import json
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from practice_tests.polling import eventually
from practice_tests.process import Server


class Usage(NamedTuple):
    """Resources of the server: open files and threads."""

    files: int
    threads: int


class Client:
    """A single connection."""

    def __init__(self, server: Server) -> None:
        parts = urlsplit(server.url)
        plain = socket.create_connection((parts.hostname, parts.port or 443), timeout=60)
        self._line = _context().wrap_socket(plain)
        self._file = self._line.makefile("rb")
        self._token = server.token

    def send(self, method: str, path: str, body: bytes = b"", length: int | None = None) -> None:
        """Send a request, whose body may be shorter than its Content-Length."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length or len(body)}\r\n\r\n"
        )
        self._line.sendall(head.encode() + body)

    def code(self) -> int:
        return int(self._file.readline().split()[1])

    def until(self, words: bytes) -> bool:
        return any(words in line for line in self._file)

    def vanish(self) -> None:
        """Reset the connection, like a client that was killed or lost its network."""
        linger = struct.pack("ii", 1, 0)
        with suppress(OSError):
            self._line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._file.close()
        self._line.close()

    def ask(self, method: str, path: str, body: object = None) -> int:
        data = json.dumps(body).encode() if body is not None else b""
        self.send(method, path, data)
        code = self.code()
        self.vanish()
        return code


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def usage_of(server: Server) -> Usage:
    process = Path("/proc") / str(server.process.pid)
    return Usage(*(len(list((process / kind).iterdir())) for kind in ("fd", "task")))


def until_released(server: Server, before: Usage, seconds: float = 60) -> None:
    """Wait until the server holds no more than before."""

    def check() -> bool:
        now = usage_of(server)
        assert now.files <= before.files and now.threads <= before.threads
        return True

    eventually(check, seconds)
