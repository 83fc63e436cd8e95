"""The probes of the kubelet are answered at the address of the pod alone."""

import socket
from http.client import HTTPConnection
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubectl_sky.errors import UserError
from kubectl_sky_server.controllers import health
from kubectl_sky_server.controllers.health import serve_health
from kubectl_sky_server.controllers.loop import Numbers
from tests.ports import free_port


def status(host: str, port: int, path: str = "/healthz") -> int:
    connection = HTTPConnection(host, port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_health_of_ipv4_and_ipv6_pod_is_ok(host: str) -> None:
    try:
        port = free_port(host)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with serve_health(host, port, lambda: iter(())):
        assert status(host, port) == 200
        assert status(host, port, "/other") == 404


def test_metrics_are_a_text_that_prometheus_reads() -> None:
    loops = {("tasks", "Sweeper"): Numbers(3, 1, 2, 0.25, 4, 1, 1.5)}
    port = free_port()
    with (
        serve_health("127.0.0.1", port, lambda: health.metrics(("tasks",), True, loops)),
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = answer.read().decode()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]

    labels = {"controller": "tasks", "loop": "Sweeper"}
    prefix = "kubectl_sky_controller_"
    assert [(sample.name.removeprefix(prefix), sample.value) for sample in samples] == [
        ("leader", 1),
        ("reconciles_total", 3),
        ("errors_total", 1),
        ("watch_errors_total", 2),
        ("reconcile_seconds_total", 0.25),
        ("queue_length", 4),
        ("running", 1),
        ("lag_seconds", 1.5),
    ]
    assert [sample.labels for sample in samples] == [{"controller": "tasks"}, *[labels] * 7]


def test_health_of_one_address_is_not_served_at_another() -> None:
    port = free_port()
    with serve_health("127.0.0.1", port, lambda: iter(())), pytest.raises(ConnectionRefusedError):
        status("127.0.0.2", port)


def test_health_beside_many_silent_connections_is_ok() -> None:
    port = free_port()
    with serve_health("127.0.0.1", port, lambda: iter(())):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        assert status("127.0.0.1", port) == 200
        for connection in silent:
            connection.close()


def test_health_port_in_use_is_user_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            pytest.raises(UserError, match=f"cannot listen on 127.0.0.1, port {port}: address"),
            serve_health("127.0.0.1", port, lambda: iter(())),
        ):
            pass
