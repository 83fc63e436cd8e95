"""RayServeGraphs to RayServices: the controller with an HTTP server of the test."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky_server.assets import TEMPLATES
from server_tests.ray.graphs import make_bytes
from server_tests.ray.source import GraphSource, serving
from tests.cluster import cache
from tests.cluster.controllers import KUBERAY, require
from tests.cluster.images import RAY
from tests.cluster.marks import ON_REAL
from tests.cluster.process import defined, running
from tests.cluster.target import Cluster
from tests.e2e.command import ROOT, Command
from tests.e2e.support import as_controller, crds_applied
from tests.polling import eventually

RAY_SERVICES = ROOT.parent / "shared" / "crds" / "ray.io_rayservices.yaml"
NAME = "fruit"
_ROUND_SECONDS = 40


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Run one test at a time: a CRD exists for all tests of a cluster or for none."""
    with cache.lock("kuberay-kinds"):
        yield


@pytest.fixture
def graphs(kubectl: Command, alone: None) -> Iterator[None]:
    """The CRD of RayServeGraphs."""
    with crds_applied(kubectl, TEMPLATES / "ray" / "rayservegraph-crd.yaml.j2"):
        yield


@pytest.fixture
def kuberay(
    cluster: Cluster, alone: None, pytestconfig: pytest.Config, tmp_path: Path
) -> Iterator[None]:
    """The KubeRay operator, running beside the real cluster."""
    require(pytestconfig, KUBERAY)
    with defined(KUBERAY, cluster), running(KUBERAY, cluster, tmp_path, []):
        yield


@pytest.fixture
def source() -> Iterator[GraphSource]:
    with serving() as server:
        server.data = make_bytes("1", 1)
        yield server


def pod_template(image: str) -> dict[str, Any]:
    resources = {"limits": {"cpu": "1", "memory": "2Gi"}}
    container = {"name": "ray", "image": image, "resources": resources}
    return {"spec": {"containers": [container]}}


def make_graph(url: str, image: str = RAY.name) -> dict[str, Any]:
    group = {"groupName": "cpu", "replicas": 1, "minReplicas": 1, "maxReplicas": 2}
    workers = [{**group, "rayStartParams": {}, "template": pod_template(image)}]
    head = {"rayStartParams": {}, "template": pod_template(image)}
    cluster = {
        "rayVersion": RAY.name.rpartition(":")[2],
        "headGroupSpec": head,
        "workerGroupSpecs": workers,
    }

    return {
        "apiVersion": "kubectl-sky.dev/v1alpha1",
        "kind": "RayServeGraph",
        "metadata": {"name": NAME},
        "spec": {
            "source": {
                "url": url,
                "tokenSecretRef": {"name": "source"},
                "pollIntervalSeconds": 5,
                "timeoutSeconds": 2,
            },
            "rayService": {"spec": {"rayClusterConfig": cluster}},
        },
    }


@pytest.fixture
def graph(source: GraphSource, graphs: None) -> dict[str, Any]:
    """The RayServeGraph that the tests begin with."""
    return make_graph(source.url)


@dataclass(frozen=True)
class Operated:
    """A RayServeGraph in the care of the controller, and the source of its graph."""

    kubectl: Command
    source: GraphSource

    def apply(self, item: dict[str, Any]) -> None:
        done = self.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(item))
        assert done.returncode == 0, done.stderr

    def set_secret(self, token: str) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "source"}}
        self.apply({**secret, "stringData": {"token": f"{token}\n"}})

    def graph(self) -> dict[str, Any]:
        item: dict[str, Any] = self.kubectl.json("get", "rayservegraph", NAME)
        return item

    def service(self) -> dict[str, Any]:
        item: dict[str, Any] = self.kubectl.json("get", "rayservice", NAME)
        return item

    def conditions(self) -> dict[str, str]:
        status = self.graph().get("status") or {}
        return {item["type"]: item["reason"] for item in status.get("conditions") or []}

    def until(self, condition: str, reason: str) -> None:
        eventually(
            lambda: self.conditions().get(condition) == reason, _ROUND_SECONDS, self.describe
        )

    def until_revision(self, revision: str) -> None:
        def revisions() -> bool:
            text = f'base": {revision}'
            applied = text in json.dumps(self.service()["spec"]["serveConfigV2"]).replace("\\", "")
            return applied and self.graph()["status"]["observedRevision"] == revision

        eventually(revisions, _ROUND_SECONDS, self.describe)

    def describe(self) -> str:
        return json.dumps(self.graph().get("status"), indent=1)


@pytest.fixture
def operated(
    sky: Command,
    kubectl: Command,
    environment: dict[str, str],
    namespace: str,
    source: GraphSource,
    graph: dict[str, Any],
) -> Iterator[Operated]:
    """The controller as a process with the installed rights, and a RayServeGraph."""
    settings = {"ray_graphs": {"trusted_hosts": ["127.0.0.1"]}}
    folder = sky.folder / ".config" / "kubectl-sky"
    (folder / "settings.yaml").write_text(json.dumps(settings))

    result = Operated(kubectl, source)
    result.set_secret(source.token)
    result.apply(graph)
    command = as_controller(sky, kubectl, environment, namespace, "ray")
    process = command.start("controllers", "run", "--only", "ray", "-n", namespace)
    yield result

    process.terminate()
    output, errors = process.communicate(timeout=60)
    command.end()
    assert process.returncode == 0, errors
    assert "forbidden" not in errors, errors

    shown = [kubectl("get", kind, "-o", "yaml").stdout for kind in ("rayservegraphs", "events")]
    text = "".join([output, errors, *shown])
    assert "-token" not in text
    assert "Traceback" not in text


@pytest.mark.skipif(
    not RAY_SERVICES.is_file(), reason="the definition of RayServices is not beside the checkout"
)
def test_ray_graph_changes_reach_status_and_service(operated: Operated, cluster: Cluster) -> None:
    if operated.kubectl("get", "crd", "rayservices.ray.io").returncode:  # or another test's
        operated.until("Applied", "RayServiceNotServed")
    with crds_applied(operated.kubectl, RAY_SERVICES):
        operated.until("Applied", "Applied")
        check_created(operated)
        check_many_changes(operated)
        assert "-token" not in operated.describe()
        operated.kubectl("delete", "rayservegraph", NAME)
        eventually(lambda: operated.kubectl("get", "rayservice", NAME).returncode)


def check_created(operated: Operated) -> None:
    service = operated.service()
    graph = operated.graph()
    (owner,) = service["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (graph["metadata"]["uid"], True)
    assert graph["status"]["observedRevision"] == "1"
    assert graph["status"]["rayService"] == {"name": NAME, "serveEndpoints": 0, "state": "NotReady"}
    assert operated.conditions()["Ready"] == "WaitingForKubeRay"
    assert "lastError" not in graph["status"]
    config = operated.kubectl.json("get", "configmap", f"{NAME}-graph-builder")
    assert "def build(" in config["data"]["kubectl_sky_graph.py"]
    path, token, _ = operated.source.requests[0]
    assert (path, token) == ("/graphs/fruit", f"Bearer {operated.source.token}")


def check_many_changes(operated: Operated) -> None:
    """Check that 50 changes of the graph converge to the last one."""
    for number in range(2, 52):
        operated.source.data = make_bytes(str(number), number)
    operated.until_revision("51")
    done = operated.service()["metadata"]
    assert done["generation"] < 40, "changes while a round runs are one round"
    requests = len(operated.source.requests)
    eventually(lambda: len(operated.source.requests) > requests + 1, _ROUND_SECONDS)
    assert operated.service()["metadata"]["resourceVersion"] == done["resourceVersion"]
    status = operated.graph()["status"]["conditions"]
    (applied,) = [item for item in status if item["type"] == "Applied"]
    assert applied["message"] == "in place: spec.serveConfigV2"


def ray_clusters(kubectl: Command) -> dict[str, Any]:
    items = kubectl.json("get", "rayclusters")["items"]
    return {item["metadata"]["name"]: item["spec"] for item in items}


def pending_cluster(operated: Operated) -> str:
    """Return the name of the RayCluster that the status shows, once it exists."""
    name = operated.graph()["status"]["rayService"].get("pendingRayCluster", "")
    return name if name in ray_clusters(operated.kubectl) else ""


def until_applied(operated: Operated, text: str) -> None:
    def messages() -> bool:
        conditions = operated.graph()["status"]["conditions"]
        return any(item["message"].startswith(text) for item in conditions)

    eventually(messages, _ROUND_SECONDS, operated.describe)


@ON_REAL
def test_ray_graph_with_kuberay_classifies_edits_as_operator_applies_them(
    kuberay: None, operated: Operated, graph: dict[str, Any]
) -> None:
    kubectl = operated.kubectl
    try:
        operated.until("Ready", "Initializing")
        first = eventually(lambda: pending_cluster(operated), _ROUND_SECONDS)
        head = ("get", "pods", "-l", f"ray.io/cluster={first},ray.io/node-type=head")
        pods = eventually(lambda: kubectl.json(*head)["items"], _ROUND_SECONDS)
        variables = {item["name"] for item in pods[0]["spec"]["containers"][0]["env"]}
        assert "PYTHONPATH" in variables
        groups = graph["spec"]["rayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]

        groups[0]["replicas"] = 2
        operated.apply(graph)
        until_applied(operated, "ignored: spec.rayClusterConfig.workerGroupSpecs.0.replicas")
        assert ray_clusters(kubectl)[first]["workerGroupSpecs"][0]["replicas"] == 1

        groups.append({**groups[0], "groupName": "more"})
        operated.apply(graph)
        until_applied(operated, "in place: spec.rayClusterConfig.workerGroupSpecs")
        eventually(lambda: len(ray_clusters(kubectl)[first]["workerGroupSpecs"]) == 2)
        assert ray_clusters(kubectl)[first]["workerGroupSpecs"][0]["replicas"] == 2

        changed = make_graph(operated.source.url, "rayproject/ray:another")
        operated.apply(changed)
        until_applied(operated, "new RayCluster: spec.rayClusterConfig.headGroupSpec")
        second = eventually(lambda: pending_cluster(operated).removeprefix(first), _ROUND_SECONDS)
        assert second
    finally:
        kubectl("delete", "rayservegraph", NAME)
        eventually(lambda: not ray_clusters(kubectl), _ROUND_SECONDS)
