"""The example graph on a real Ray: `pytest -n 0 -m ray`, for which the other tests do not wait."""

from typing import Any

import pytest
from google.protobuf import text_format

from kubectl_sky.ray import ray_graph_pb2
from tests.cluster import images
from tests.cluster.target import Cluster
from tests.e2e.command import ROOT, Command
from tests.e2e.test_ray_graphs import (
    NAME,
    Operated,
    alone,
    graphs,
    kuberay,
    make_graph,
    operated,
    ray_clusters,
    source,
)
from tests.polling import eventually
from tests.ray.source import GraphSource

__all__ = ["alone", "graphs", "kuberay", "operated", "source"]

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(900),  # the first one makes the image
    pytest.mark.parametrize(
        "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
    ),
]
EXAMPLE = ROOT / "examples" / "ray"


def example(factor: int) -> bytes:
    """Return the graph of the example, with another factor."""
    text = (EXAMPLE / "graph.txtpb").read_text().replace('"factor": 3', f'"factor": {factor}')
    message = text_format.Parse(text, ray_graph_pb2.RayGraph())
    message.revision = str(factor)
    return message.SerializeToString()


@pytest.fixture
def graph(source: GraphSource, graphs: None, kubectl: Command, cluster: Cluster) -> dict[str, Any]:
    """A RayServeGraph whose image has Ray, and whose pods have fruit.py of the example."""
    images.load(cluster, images.ray())
    source.data = example(3)
    made = kubectl("create", "configmap", "fruit", f"--from-file={EXAMPLE / 'fruit.py'}")
    assert made.returncode == 0, made.stderr
    item = make_graph(source.url)
    config = item["spec"]["rayService"]["spec"]["rayClusterConfig"]
    for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        pod["volumes"] = [{"name": "fruit", "configMap": {"name": "fruit"}}]
        (container,) = pod["containers"]
        container["env"] = [{"name": "PYTHONPATH", "value": "/fruit"}]
        container["volumeMounts"] = [{"name": "fruit", "mountPath": "/fruit"}]
    return item


def test_ray_graph_gets_ready_and_changed_graph_is_applied_in_place(
    kuberay: None, operated: Operated
) -> None:
    kubectl = operated.kubectl
    wait = ("wait", f"rayservegraph/{NAME}", "--for=condition=Ready", "--timeout=300s")
    ready = kubectl(*wait, timeout=310)
    assert ready.returncode == 0, kubectl("get", "pods,rayservices", "-o", "yaml").stdout
    clusters = list(ray_clusters(kubectl))
    pods = ("get", "pods", "-l", "ray.io/node-type=head", "-o", "name")
    head = kubectl(*pods).stdout.strip()
    get = "import urllib.request as r, sys; print(r.urlopen(sys.argv[1]).read().decode())"
    url = f"http://{NAME}-serve-svc:8000/market?count=3"

    def price() -> str:
        return kubectl("exec", head, "--", "python3", "-c", get, url).stdout

    eventually(lambda: price() == '{"price":18}\n', message=price)
    operated.source.data = example(5)
    eventually(lambda: price() == '{"price":30}\n', message=price)
    assert list(ray_clusters(kubectl)) == clusters, "in place"
