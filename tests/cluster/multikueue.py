"""Two more clusters of this machine, with Kueue: a manager of MultiKueue and its worker."""

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controllers import JOBSET, KUEUE, require
from tests.cluster.fixtures import ENVIRONMENT
from tests.cluster.hold import Holder
from tests.cluster.process import certificate, configured, defined, running
from tests.cluster.shell import absent, run
from tests.cluster.target import Cluster

WORKER = "worker1"
QUEUE = "team"
NAMESPACE = "default"
_API = "kueue.x-k8s.io/v1beta2"
_CONVERTED = ("clusterqueues", "localqueues", "multikueueclusters", "workloads")
_HOOKED = {"jobs", "clusterqueues", "localqueues", "resourceflavors", "workloads"}
_QUOTA = [{"name": "cpu", "nominalQuota": 8}, {"name": "memory", "nominalQuota": "16Gi"}]


@pytest.fixture(scope="session")
def multikueue(
    real_cluster: Cluster, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A kubeconfig with the contexts `manager`, the current one, and `worker1`."""
    for controller in (KUEUE, JOBSET):
        require(pytestconfig, controller)
    if real_cluster.driver != "machine":
        absent("no MultiKueue: two more clusters are only made of this machine's programs")

    with ExitStack() as stack:
        contexts = {}
        holders = {name: Holder.start(ENVIRONMENT) for name in ("manager", WORKER)}
        for name, holder in holders.items():
            stack.callback(holder.stop)
            cluster = holder.cluster()
            stack.enter_context(kueue_with_webhooks(cluster, tmp_path_factory.mktemp(name)))
            text = _kubectl(cluster, "config", "view", "--flatten", "--raw", "--minify")
            contexts[name] = (cluster, yaml.safe_load(text))
        worker, kubeconfig = contexts[WORKER]
        _kubectl(worker, "apply", "-f", "-", text=as_list(*queues()))
        manager, _ = contexts["manager"]
        checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]}}
        items = (*_connection(kubeconfig), *queues(**checks))
        _kubectl(manager, "apply", "-f", "-", text=as_list(*items))
        ready = ("--for=condition=Active", "clusterqueue", QUEUE, "--timeout=60s")
        _kubectl(manager, "wait", *ready)
        file = tmp_path_factory.mktemp("multikueue") / "kubeconfig"
        file.write_text(
            json.dumps(_merged({name: config for name, (_, config) in contexts.items()}))
        )
        yield file


@contextmanager
def kueue_with_webhooks(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Kueue of one cluster, which asks it about Jobs and queues and lets it convert its kinds."""
    certificates = folder / "etc/kueue/metrics/certs"
    certificates.mkdir(parents=True)
    certificate(certificates)
    multikueue = {"origin": folder.name, "gcInterval": "5s"}
    more = {
        "integrations": {"frameworks": ["batch/job"]},
        "multiKueue": multikueue,
        "clientConnection": {"qps": 300, "burst": 500},
    }
    flag = configured(certificates, "config.kueue.x-k8s.io/v1beta2", **more)
    port = json.loads((certificates / "config.yaml").read_text())["webhook"]["port"]
    trust = {"caBundle": base64.b64encode((certificates / "tls.crt").read_bytes()).decode()}
    _kubectl(cluster, "create", "namespace", KUEUE.namespace)

    with defined(JOBSET, cluster), defined(KUEUE, cluster):
        convert = {"url": f"https://127.0.0.1:{port}/convert", **trust}
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": convert}
        patch = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
        kinds = [f"crd/{plural}.kueue.x-k8s.io" for plural in _CONVERTED]
        for kind in kinds:
            _kubectl(cluster, "patch", kind, "--type=merge", "-p", json.dumps(patch))
        with running(KUEUE, cluster, folder, [flag]):
            hooks = as_list(*_webhooks(f"https://127.0.0.1:{port}", trust))
            _kubectl(cluster, "apply", "-f", "-", text=hooks)
            yield


def _webhooks(url: str, trust: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Those of its module that are about Jobs and queues."""
    file = KUEUE.kinds().parents[1] / "webhook" / "manifests.yaml"
    for item in yaml.safe_load_all(file.read_text()):
        item["metadata"]["name"] = f"kueue-{item['metadata']['name']}"
        item["webhooks"] = [hook for hook in item["webhooks"] if _is_used(hook)]
        for hook in item["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": url + path, **trust}
        yield item


def _is_used(hook: dict[str, Any]) -> bool:
    groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
    resources = {plural for rule in hook["rules"] for plural in rule["resources"]}
    return groups <= {"batch", "kueue.x-k8s.io"} and resources <= _HOOKED


def queues(**more: object) -> list[dict[str, Any]]:
    """Return a flavor, a ClusterQueue, and a LocalQueue for it in the default namespace."""
    flavors = [{"name": "plain", "resources": _QUOTA}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": flavors}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], **more}
    local = _object("LocalQueue", QUEUE, clusterQueue=QUEUE)
    local["metadata"]["namespace"] = NAMESPACE
    return [_object("ResourceFlavor", "plain"), _object("ClusterQueue", QUEUE, **spec), local]


def _connection(kubeconfig: dict[str, Any]) -> list[dict[str, Any]]:
    """What leads the manager to the worker."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": WORKER, "namespace": KUEUE.namespace},
        "stringData": {"kubeconfig": json.dumps(kubeconfig)},
    }
    source = {"kubeConfig": {"locationType": "Secret", "location": WORKER}}
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    controller = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}

    return [
        secret,
        _object("MultiKueueCluster", WORKER, clusterSource=source),
        _object("MultiKueueConfig", "all", clusters=[WORKER]),
        _object("AdmissionCheck", "multikueue", **controller),
    ]


def _object(kind: str, name: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _merged(configs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One kubeconfig with a context per cluster, of its administrator."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "manager"}
    for part in ("clusters", "users", "contexts"):
        merged[part] = [{**config[part][0], "name": name} for name, config in configs.items()]
    for entry in merged["contexts"]:
        entry["context"] = {"cluster": entry["name"], "user": entry["name"]}
    return merged


def as_list(*items: dict[str, Any]) -> str:
    """Return objects as one manifest for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _kubectl(cluster: Cluster, *arguments: str, text: str | None = None) -> str:
    command = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", *arguments]
    return run(command, text=text)
