"""Traces of the server and the controllers, by OpenTelemetry's packages, at a collector."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx2
import pytest

from tests.cluster.rest_server import RestServer
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.polling import eventually

pytestmark = [pytest.mark.tools, pytest.mark.practice_only]  # opentelemetry
PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER, CLIENT = 2, 3  # kinds of spans


@dataclass
class Collector:
    """The spans that were sent to an endpoint, each with the name of its service."""

    url: str
    spans: list[tuple[str, Any]] = field(default_factory=list)

    def named(self, service: str, name: str) -> list[Any]:
        """Return the spans of a service with a name."""
        return [span for owner, span in self.spans if (owner, span.name) == (service, name)]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector on loopback, which the environment names."""
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    spans: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = service.ExportTraceServiceRequest()
            sent.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in sent.resource_spans:
                owner = texts(resource.resource)["service.name"]
                spans.extend(
                    (owner, span) for scope in resource.scope_spans for span in scope.spans
                )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")  # milliseconds
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        yield Collector(url, spans)
        server.shutdown()


def texts(item: Any) -> dict[str, str]:
    """Return the attributes of a resource or a span as texts."""
    return {
        pair.key: pair.value.string_value or str(pair.value.int_value) for pair in item.attributes
    }


def test_server_traces_requests_and_those_they_send(
    cluster: Cluster, namespace: str, collector: Collector
) -> None:
    token, (trace, parent) = cluster.token(), PARENT
    headers = {"Authorization": f"Bearer {token}", "traceparent": f"00-{trace}-{parent}-01"}
    with RestServer.start(cluster) as server, httpx2.Client(headers=headers) as client:
        query = {"namespace": namespace, "label_selector": "team=secret-team"}
        assert client.get(f"{server.url}/tasks", params=query).status_code == 200
        assert client.get(f"{server.url}/tasks/nosuch01", params=query).status_code == 404
        assert client.get(f"{server.url}/healthz").status_code == 200
        eventually(lambda: collector.named("kubectl-sky-api", "GET /tasks/{task_id}"))
    (span,) = collector.named("kubectl-sky-api", "GET /tasks")
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.kind) == (trace, parent, SERVER)
    assert texts(span) == {
        "http.request.method": "GET",
        "http.response.status_code": "200",
        "http.route": "/tasks",
    }
    sent = collector.named("kubectl-sky-api", "kube-apiserver GET")
    children = [texts(item) for item in sent if item.parent_span_id == span.span_id]
    assert f"/apis/batch/v1/namespaces/{namespace}/jobs" in [item["url.path"] for item in children]
    assert {item["http.response.status_code"] for item in children} == {"200"}
    assert not any("healthz" in item.name for _, item in collector.spans)
    assert token not in str(collector.spans)
    assert "secret-team" not in str(collector.spans)


def test_controllers_trace_reconciles_and_those_requests_they_send(
    cluster: Cluster, sky: Command, namespace: str, collector: Collector
) -> None:
    command = [sys.executable, "-m", "kubectl_sky", "controllers", "run", "--only", "tasks"]
    command += ["-n", namespace, f"--kubeconfig={cluster.kubeconfig}"]
    command += ["--delete-finished-after", "1h"]
    with subprocess.Popen(command, env=os.environ) as process:
        eventually(lambda: collector.named("kubectl-sky-controllers", "Sweeper reconcile"))
        process.terminate()
    (span,) = collector.named("kubectl-sky-controllers", "Sweeper reconcile")
    sent = collector.named("kubectl-sky-controllers", "kube-apiserver GET")
    assert any(item.parent_span_id == span.span_id and item.kind == CLIENT for item in sent)
