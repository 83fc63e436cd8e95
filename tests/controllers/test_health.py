"""The probes of the kubelet are answered at the address of the pod alone."""

import socket
from http.client import HTTPConnection

import pytest

from kubectl_sky.controllers.http_server import PATH, serve_health
from kubectl_sky.errors import UserError


def free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as server:
            return int(server.getsockname()[1])
    except OSError:
        pytest.skip(f"this machine has no {host}")


def status(host: str, port: int, path: str = PATH) -> int:
    connection = HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_health_of_ipv4_and_ipv6_pod_is_ok(host: str) -> None:
    port = free_port(host)
    with serve_health(host, port):
        assert status(host, port) == 200
        assert status(host, port, "/other") == 404


def test_health_of_one_address_is_not_served_at_another() -> None:
    port = free_port("127.0.0.1")
    with serve_health("127.0.0.1", port), pytest.raises(ConnectionRefusedError):
        status("127.0.0.2", port)


def test_health_beside_many_silent_connections_is_ok() -> None:
    port = free_port("127.0.0.1")
    with serve_health("127.0.0.1", port):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        assert status("127.0.0.1", port) == 200
        for connection in silent:
            connection.close()


def test_health_port_in_use_is_user_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            pytest.raises(UserError, match=f"cannot listen on 127.0.0.1, port {port}: address"),
            serve_health("127.0.0.1", port),
        ):
            pass
