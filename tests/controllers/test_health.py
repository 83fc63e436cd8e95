"""The probes of the kubelet are answered at the address of the pod alone."""

import asyncio
import socket

import aiohttp
import pytest

from kubectl_sky.controllers.health import PATH, serve_health


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_health_of_ipv4_and_ipv6_pod_is_ok(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as server:
            port = server.getsockname()[1]
    except OSError:
        pytest.skip(f"this machine has no {host}")

    async def probe() -> int:
        url = f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"
        async with (
            serve_health(host, port),
            aiohttp.ClientSession() as client,
            client.get(url) as response,
        ):
            return response.status

    assert asyncio.run(probe()) == 200


def test_health_of_one_address_is_not_served_at_another() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        async with serve_health("127.0.0.1", port):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.2", port)

    asyncio.run(run())


def test_error_of_controllers_is_no_error_of_their_port() -> None:
    async def run() -> None:
        async with serve_health("127.0.0.1", 0):
            raise ConnectionResetError("of a watch")

    with pytest.raises(ConnectionResetError, match="of a watch"):
        asyncio.run(run())
