"""A SOCKS5 proxy on loopback that connects every name to one server, or refuses."""

import contextlib
import socket
import struct
import threading
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit


class SocksProxy:
    """Connects to `server`, whatever host is asked for; `names` are the hosts, as they were sent.

    With a `refusal`, the code of an error, it connects to nothing.
    """

    def __init__(self, server: str, refusal: int = 0) -> None:
        parts = urlsplit(server)
        target = (parts.hostname or "", parts.port or 443)
        names: list[str] = []
        self.names = names

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, EOFError):
                    names.append(self._negotiate())
                    if not refusal:
                        _join(self.request, target)

            def _negotiate(self) -> str:
                _, count = self._receive(2)
                self._receive(count)
                self.request.sendall(b"\5\0")  # no login

                _, _, _, kind = self._receive(4)
                size = 4 if kind == 1 else self._receive(1)[0]
                host = self._receive(size)
                self._receive(2)  # the port
                self.request.sendall(struct.pack("!BBBBIH", 5, refusal, 0, 1, 0, 0))
                return socket.inet_ntoa(host) if kind == 1 else host.decode()

            def _receive(self, size: int) -> bytes:
                data = b""
                while len(data) < size:
                    part = self.request.recv(size - len(data))
                    if not part:
                        raise EOFError
                    data += part
                return data

        self._server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _join(client: socket.socket, target: tuple[str, int]) -> None:
    """Copy in both directions until each side has closed."""
    with socket.create_connection(target) as server:
        thread = threading.Thread(target=_copy, args=(server, client), daemon=True)
        thread.start()
        _copy(client, server)
        thread.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
