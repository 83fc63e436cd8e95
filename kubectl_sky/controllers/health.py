"""Answer the probes of the kubelet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kubectl_sky.errors import UserError

PATH = "/healthz"


@asynccontextmanager
async def serve_health(host: str, port: int | None) -> AsyncIterator[None]:
    """Serve PATH on a port of an address while the event loop runs; nothing without a port.

    Raises UserError if the port is in use.
    """
    if port is None:
        yield
        return
    application = web.Application()
    application.router.add_get(PATH, _healthy)
    runner = web.AppRunner(application, handle_signals=False, access_log=None)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot listen on {host}, port {port}: {reason}", "choose another port"
        ) from None


async def _healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
