"""Links to the API server on this machine: one no faster than an office's, one that counts."""

import math
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import urlsplit

import yaml

from tests.cluster.target import selected

_BLOCK = 16 * 1024
_AHEAD = 0.02  # seconds of bytes that go at once


class Link:
    """Forwards TCP; all that goes to the server shares so many bytes a second.

    `received` counts the bytes that came from the server.
    """

    def __init__(self, server: str, speed: float = math.inf) -> None:
        parts = urlsplit(server)
        self._target = (parts.hostname or "", parts.port or 443)
        self._speed = speed
        self._free = 0.0  # when the link has room again, by the monotonic clock
        self._lock = Lock()
        self.received = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self.listener.accept()
                server = socket.create_connection(self._target)
                for source, target, sends in ((line, server, True), (server, line, False)):
                    Thread(target=self._pump, args=(source, target, sends), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, sends: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_BLOCK):
                if sends:
                    self._wait(len(data))
                else:
                    with self._lock:
                        self.received += len(data)
                sink.sendall(data)
        for line in (source, sink):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _wait(self, count: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._free = max(self._free, now - _AHEAD) + count / self._speed
            seconds = self._free - now
        if seconds > 0:
            time.sleep(seconds)


@contextmanager
def slow(kubeconfig: Path, speed: float, folder: Path) -> Iterator[Path]:
    """Give a kubeconfig whose server is at the other end of a link of so many bytes a second."""
    with linked(kubeconfig, folder, speed) as (written, _):
        yield written


@contextmanager
def linked(kubeconfig: Path, folder: Path, speed: float = math.inf) -> Iterator[tuple[Path, Link]]:
    """Give a kubeconfig whose server is at the other end of a link, and the link.

    The server's certificate has to be good for 127.0.0.1.
    """
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, _ = selected(config)
    link = Link(cluster["server"], speed)
    cluster["server"] = f"https://127.0.0.1:{link.listener.getsockname()[1]}"
    written = folder / "kubeconfig"
    written.touch(mode=0o600)
    written.write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        yield written, link
    finally:
        link.listener.close()
