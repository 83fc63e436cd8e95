"""The probes of the kubelet, and the metrics of Prometheus.

Labels name a controller and its loop, never a user, a namespace or a task.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kubectl_sky.cluster import parallel
from kubectl_sky.errors import UserError
from kubectl_sky_server.controllers.loop import Numbers

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Metric = CounterMetricFamily | GaugeMetricFamily
Collect = Callable[[], Iterator[Metric]]

_PREFIX = "kubectl_sky_controller_"
_LEADER = f"{_PREFIX}leader", "Whether this process holds the Leases of the controllers."
_COUNTERS = {  # fields of Numbers by the names of metrics, which end in _total, and their help
    "reconciles": ("Reconciles of keys, failed ones included.", "reconciles"),
    "errors": ("Reconciles that failed and are retried.", "errors"),
    "watch_errors": ("Watches that were refused or cut off.", "watch_errors"),
    "reconcile_seconds": ("Seconds that reconciles took.", "seconds"),
}
_GAUGES = {
    "queue_length": ("Keys that are due and not being reconciled.", "queue"),
    "running": ("Keys that are being reconciled.", "running"),
    "lag_seconds": ("Seconds that the first key of the queue is overdue.", "lag"),
}


def metrics(
    controllers: Iterable[str], is_leader: bool, loops: Mapping[tuple[str, str], Numbers]
) -> Iterator[Metric]:
    """Yield the metrics; `loops` are by the names of controller and loop, none without the lead."""
    leader = GaugeMetricFamily(*_LEADER, labels=["controller"])
    for name in controllers:
        leader.add_metric([name], is_leader)
    yield leader
    for family, table in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
        for name, (text, field) in table.items() if loops else ():
            metric = family(_PREFIX + name, text, labels=["controller", "loop"])
            for labels, numbers in loops.items():
                metric.add_metric(labels, getattr(numbers, field))
            yield metric


class _Collector(Collector):
    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        return self._collect()


class _Handler(WSGIRequestHandler):
    timeout = 10  # seconds that a connection may be silent

    def log_message(self, *_: object) -> None:
        """Log nothing: anybody can send requests."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        """Bind, without asking DNS for our name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def handle_error(self, *_: object) -> None:
        """Log nothing: the sender has gone."""


@contextmanager
def serve_health(host: str, port: int, collect: Collect) -> Iterator[None]:
    """Serve /healthz and /metrics on a port of an address. Raises UserError if it is in use."""
    registry = CollectorRegistry()
    registry.register(_Collector(collect))
    export: WSGIApplication = make_wsgi_app(registry)

    def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            return export(environ, start)
        headers = [("Content-Type", "text/plain")]
        if environ["PATH_INFO"] == "/healthz":
            start("200 OK", headers)
            return [b"ok\n"]
        start("404 Not Found", headers)
        return [b"not found\n"]

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kind = type("Server", (_Server,), {"address_family": family})
    try:
        server = kind((host, port), _Handler)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UserError(
            f"cannot listen on {host}, port {port}: {reason}", "choose another port"
        ) from None
    server.set_app(answer)
    parallel.run_daemon(server.serve_forever, 0.1, name="http")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
