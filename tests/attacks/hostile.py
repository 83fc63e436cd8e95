"""A server on loopback that answers every request with the bytes of an attack."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

Attack = Callable[[str], Iterator[bytes]]  # from the request's head to the pieces of the answer


class HostileServer:
    """Answers each request by an attack until the client hangs up; `requests` has their heads."""

    def __init__(self, attack: Attack) -> None:
        self.requests: list[str] = []
        self._attack = attack
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while head := read_head(connection):
                self.requests.append(head)
                for piece in self._attack(head):
                    connection.sendall(piece)
                if not keeps_alive(head):
                    return


def read_head(connection: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(4096)
        if not chunk:
            return ""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode("latin-1")
    for line in text.lower().splitlines():
        if line.startswith("content-length:"):
            missing = int(line.partition(":")[2]) - len(body)
            while missing > 0:
                missing -= len(connection.recv(missing)) or missing
    return text


def keeps_alive(head: str) -> bool:
    return "upgrade: websocket" not in head.lower()


def answer(
    body: bytes, status: str = "200 OK", kind: str = "application/json", **headers: str
) -> bytes:
    """Return a whole answer; `Retry_After="1"` becomes a header."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def forever(piece: bytes, seconds: float = 0.0) -> Iterator[bytes]:
    """Yield a piece again and again."""
    while True:
        yield piece
        time.sleep(seconds)
