"""Answer the probes of the kubelet."""

from collections.abc import Iterator
from contextlib import contextmanager

from kubectl_sky.controllers.http_server import Handler, Server

PATH = "/healthz"


class _Health(Handler):
    def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
        if self.path.partition("?")[0] == PATH:
            self.reply(200, "ok")
        else:
            self.reply(404, "not found")


@contextmanager
def serve_health(host: str, port: int | None) -> Iterator[None]:
    """Serve PATH on a port of an address; nothing without a port.

    Raises UserError if the port is in use.
    """
    if port is None:
        yield
        return
    server = Server(host, port, _Health)
    server.start()
    try:
        yield
    finally:
        server.stop()
