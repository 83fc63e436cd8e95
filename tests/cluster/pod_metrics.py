"""The metrics of pods by a real adapter, which programs in the pods tell what they measure."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controllers import METRICS, require
from tests.cluster.process import free_port, running
from tests.cluster.shell import run
from tests.cluster.target import Cluster

_GROUP = "custom.metrics.k8s.io"
_VERSION = "v1beta2"
_SERVICE = {"name": "metrics-adapter", "namespace": "kube-system"}


@pytest.fixture
def pod_metrics(
    real_cluster: Cluster, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address at which pods tell their metrics: http://HOST:PORT/write-metrics/…."""
    require(pytestconfig, METRICS)
    folder = tmp_path_factory.mktemp("pod-metrics")
    kubectl = [str(real_cluster.kubectl), f"--kubeconfig={real_cluster.kubeconfig}"]
    address = "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}"
    host = run([*kubectl, "get", "nodes", "-o", address]).strip()
    told = free_port()
    port = free_port()

    flags = [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={folder}"]
    flags += ["--authentication-skip-lookup=true"]
    for name in ("lister", "authentication", "authorization"):
        flags.append(f"--{name}-kubeconfig={real_cluster.kubeconfig}")
    adapter = replace(METRICS, variables={"METRICS_ADDRESS": f":{told}"})
    with running(adapter, real_cluster, folder, flags), _served(kubectl, folder, port):
        yield f"http://{host}:{told}/write-metrics"


@contextmanager
def _served(kubectl: list[str], folder: Path, port: int) -> Iterator[None]:
    """Let the API server ask the adapter, which does not know the API server's certificate."""
    file = folder / "api.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*_objects(port)]}))
    run([*kubectl, "apply", "-f", file])
    try:
        name = f"apiservice/{_VERSION}.{_GROUP}"
        run([*kubectl, "wait", "--for=condition=Available", "--timeout=60s", name])
        yield
    finally:
        run([*kubectl, "delete", "-f", file])


def _objects(port: int) -> Iterator[dict[str, Any]]:
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _SERVICE,
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    yield {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{_VERSION}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "version": _VERSION,
            "service": {**_SERVICE, "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    rules = [
        {"apiGroups": [_GROUP], "resources": ["*"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/apis", "/apis/*"], "verbs": ["get"]},
    ]
    meta = {"name": "metrics-adapter-readers"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **meta}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}
    common = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta}
    yield {**common, "kind": "ClusterRole", "rules": rules}
    yield {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
