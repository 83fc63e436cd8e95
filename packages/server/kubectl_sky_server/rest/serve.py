"""Listen and serve until a signal; the certificate is reloaded when its files change."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.words import bounded
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.connection import Connection

_RELOAD_SECONDS = 5.0
_SHUTDOWN_SECONDS = 5
_MAX_HEADER_BYTES = 128 * 1024  # a Last-Event-ID of many pods is long


class Listener(Struct, frozen=True):
    """An address, and the files of a certificate and its key ("" for no TLS)."""

    host: str
    port: int
    certificate: str = ""
    key: str = ""


def serve(
    config: Config,
    listener: Listener,
    note: Callable[[str], object],
    listening: Callable[[str], object],
) -> None:
    """Serve until SIGINT or SIGTERM. Raises UserError if that is not possible.

    `listening` is called with the URL when connections are accepted.
    """
    app = create_app(config)
    server = uvicorn.Server(uvicorn_config(app, listener))
    sock = _bind(listener)
    with sock:
        port = sock.getsockname()[1]
        scheme = "https" if listener.certificate else "http"
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        listening(f"{scheme}://{host}:{port}")
        asyncio.run(_serve(server, sock, listener, note))


def uvicorn_config(app: FastAPI, listener: Listener) -> uvicorn.Config:
    """Return how the application is served. Raises UserError for an invalid certificate."""
    config = uvicorn.Config(
        app,
        access_log=False,  # it would log the queries
        http=Connection,  # bounded h11; httptools reads headers of any size
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        ssl_certfile=listener.certificate or None,
        ssl_keyfile=listener.key or None,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ws_max_size=1 << 20,
    )

    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot use the certificate {listener.certificate}: {reason}") from None
    return config


def _bind(listener: Listener) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        return socket.create_server(
            (listener.host, listener.port), family=family, backlog=1024, reuse_port=False
        )
    except OSError as error:
        what = f"cannot listen on {listener.host}:{listener.port}: {bounded.reason(error)}"
        raise UserError(what, "choose another port with --port") from None


async def _serve(
    server: uvicorn.Server, sock: socket.socket, listener: Listener, note: Callable[[str], object]
) -> None:
    async with _reloading(server.config, listener, note):
        await server.serve(sockets=[sock])


@contextlib.asynccontextmanager
async def _reloading(
    config: uvicorn.Config, listener: Listener, note: Callable[[str], object]
) -> AsyncIterator[None]:
    """Load the certificate again when one of its files has changed."""
    if config.ssl is None:
        yield
        return
    task = asyncio.create_task(_reload(config.ssl, listener, note))
    try:
        yield
    finally:
        task.cancel()


async def _reload(
    context: ssl.SSLContext, listener: Listener, note: Callable[[str], object]
) -> None:
    """New connections use the new certificate; until it is complete, the old one counts."""
    files = [Path(listener.certificate), Path(listener.key)]
    loaded = await asyncio.to_thread(_state, files)
    while True:
        await asyncio.sleep(_RELOAD_SECONDS)
        current = await asyncio.to_thread(_state, files)
        if current == loaded:
            continue
        try:
            context.load_cert_chain(listener.certificate, listener.key)
            loaded = current
            note(f"the certificate {listener.certificate} was loaded again")
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or "invalid"
            note(f"warning: cannot load the certificate {listener.certificate}: {reason}")


def _state(files: list[Path]) -> list[tuple[int, int, int]]:
    with contextlib.suppress(OSError):
        return [
            (info.st_ino, info.st_mtime_ns, info.st_size)
            for info in (file.stat() for file in files)
        ]
    return []
