"""A custom metrics API of a test, which the API server asks on this machine."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.cluster import cache
from tests.cluster.process import certificate
from tests.cluster.shell import run
from tests.cluster.target import Cluster

_GROUP, _VERSION, _SERVICE = "custom.metrics.k8s.io", "v1beta2", "metrics"
_PODS = re.compile(rf"/apis/{_GROUP}/{_VERSION}/namespaces/([^/]+)/pods/\*/([^/]+)")


class Metrics:
    """The value that each pod has for each metric."""

    def __init__(self, cluster: Cluster) -> None:
        self.value = 0
        self._kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]

    def answer(self, url: str) -> dict[str, Any]:
        """Return the values of the selected pods; for another URL the kinds of the API: none."""
        parts = urlsplit(url)
        match = _PODS.fullmatch(unquote(parts.path))
        if not match:
            return {"kind": "APIResourceList", "apiVersion": "v1", "resources": []} | {
                "groupVersion": f"{_GROUP}/{_VERSION}"
            }
        (selector,) = parse_qs(parts.query)["labelSelector"]
        get = ["get", "pods", "-n", match[1], "-l", selector, "-o", "json"]
        pods = json.loads(run([*self._kubectl, *get]))["items"]
        head = {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": "MetricValueList", "metadata": {}}
        return head | {"items": [self._value(pod, match[2]) for pod in pods]}

    def _value(self, pod: dict[str, Any], name: str) -> dict[str, Any]:
        about = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
        return {
            "describedObject": about | {"namespace": pod["metadata"]["namespace"]},
            "metric": {"name": name},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": str(self.value),
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, metrics: Metrics, *arguments: Any) -> None:
        self._metrics = metrics
        super().__init__(*arguments)

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        known = self.path.startswith(f"/apis/{_GROUP}/{_VERSION}")
        body = json.dumps(self._metrics.answer(self.path)).encode() if known else b""
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(cluster: Cluster, namespace: str, folder: Path) -> Iterator[Metrics]:
    """Serve the API to the cluster, through a Service of the namespace that leads here."""
    if cluster.driver != "machine":
        pytest.skip("the cluster's API server is not on this machine, where it would have to ask")
    metrics = Metrics(cluster)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder) / "tls.crt", folder / "tls.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, metrics))
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects(server, namespace)})
    try:
        with cache.lock("metrics-api"):  # a cluster has one
            run([*kubectl, "apply", "-f", "-"], text=items)
            try:
                yield metrics
            finally:
                run([*kubectl, "delete", "-f", "-"], text=items)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _objects(server: ThreadingHTTPServer, namespace: str) -> list[dict[str, Any]]:
    service = {"name": _SERVICE, "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": service,
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{_VERSION}.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": _VERSION,
                "service": service | {"port": server.server_port},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]
