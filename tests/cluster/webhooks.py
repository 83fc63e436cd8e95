"""AppWrapper with its webhooks: the cluster asks it about each AppWrapper that is made.

It asks in turn whether the user may create what is wrapped. Its port is the same everywhere, so
that one at a time runs on a machine.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controllers import APPWRAPPER, require, settled
from tests.cluster.process import defined, free, running
from tests.cluster.shell import run
from tests.cluster.target import Cluster
from tests.polling import eventually

WATCHED = {"kubectl-sky-tests/appwrapper": "asked"}  # the label of the namespaces that it is for
_PORT = 9443
_NAMESPACE = "appwrapper-asking"
_SERVICE, _SECRET = "appwrapper-webhook-service", "appwrapper-webhook-server-cert"


@pytest.fixture(scope="module")
def asking(
    real_cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """It runs, and is asked about namespaces that have the label."""
    require(pytestconfig, APPWRAPPER)
    if real_cluster.driver != "machine":
        pytest.skip("the cluster's server is not on this machine, where it would have to ask")
    folder = tmp_path_factory.mktemp("asking")
    certificates = folder / "k8s-webhook-server" / "serving-certs"  # below what TMPDIR says
    certificates.mkdir(parents=True)
    says = {
        "webhooksEnabled": True,
        "certManagement": {"certificateDir": str(certificates)},
    }
    variables = {"NAMESPACE": _NAMESPACE, "TMPDIR": str(folder)}
    controller = replace(APPWRAPPER, namespace=_NAMESPACE, variables=variables)
    with (
        free(_PORT, APPWRAPPER),
        defined(APPWRAPPER, real_cluster),
        settled(real_cluster, controller, **says),
        _known(real_cluster),
        running(controller, real_cluster, folder, []),
    ):
        _certified(real_cluster, certificates)
        yield


@contextmanager
def _known(cluster: Cluster) -> Iterator[None]:
    """What leads the cluster to it: a Service, and webhooks to which it writes whom to trust."""
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    hooks = list(_webhooks())
    spec = {"type": "ExternalName", "externalName": "localhost"}
    items = [_named("Service", _SERVICE, spec=spec), _named("Secret", _SECRET), *hooks]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    run([*kubectl, "apply", "-f", "-"], text=text)
    try:
        yield
    finally:
        names = [f"{hook['kind']}/{hook['metadata']['name']}" for hook in hooks]
        run([*kubectl, "delete", *names])


def _named(kind: str, name: str, **more: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": _NAMESPACE}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def _webhooks() -> Iterator[dict[str, Any]]:
    """As its module has them, for the namespaces of the tests."""
    file = APPWRAPPER.kinds().parents[1] / "webhook" / "manifests.yaml"
    for item in yaml.safe_load_all(file.read_text()):
        item["metadata"]["name"] = f"appwrapper-{item['metadata']['name']}"
        for hook in item["webhooks"]:
            where = {"name": _SERVICE, "namespace": _NAMESPACE, "port": _PORT}
            hook["clientConfig"]["service"] |= where
            hook["namespaceSelector"] = {"matchLabels": WATCHED}
        yield item


def _certified(cluster: Cluster, folder: Path) -> None:
    """Do what a kubelet does: write the Secret's certificate where the program looks for it."""
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]

    def certificate() -> dict[str, str]:
        text = run([*kubectl, "-n", _NAMESPACE, "get", "secret", _SECRET, "-o", "json"])
        data: dict[str, str] = json.loads(text).get("data") or {}
        return data if "tls.crt" in data else {}

    secret = eventually(certificate, 120, "AppWrapper has made no certificate")
    for name in ("tls.key", "tls.crt"):  # the last one is waited for
        (folder / name).write_bytes(base64.b64decode(secret[name]))
