"""The example of the documentation is a valid graph of a valid RayServeGraph."""

from pathlib import Path

import yaml
from google.protobuf import text_format

from kubectl_sky.words import kinds
from kubectl_sky_server.assets import TEMPLATES
from kubectl_sky_server.ray import model_graph as graph
from kubectl_sky_server.ray import model_serve_config as serve_config
from kubectl_sky_server.ray import model_service as service
from kubectl_sky_server.ray import ray_graph_pb2
from tests.reading import read

EXAMPLE = Path(__file__).parents[4] / "examples" / "ray"


def test_example_graph_becomes_service() -> None:
    message = text_format.Parse((EXAMPLE / "graph.txtpb").read_text(), ray_graph_pb2.RayGraph())
    parsed = graph.parse(message.SerializeToString())
    _, item = yaml.safe_load_all((EXAMPLE / "rayservegraph.yaml").read_text())
    item["metadata"] |= {"namespace": "default", "uid": "1"}
    config = serve_config.write(serve_config.serve_config(parsed))
    assert (
        service.ray_service(read(kinds.RAY_SERVE_GRAPH, item), config)["spec"]["serveConfigV2"]
        == config
    )


def test_example_has_only_fields_of_crd() -> None:
    crd = yaml.safe_load((TEMPLATES / "ray" / "rayservegraph-crd.yaml.j2").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    _, item = yaml.safe_load_all((EXAMPLE / "rayservegraph.yaml").read_text())
    for name, value in item["spec"].items():
        assert set(value) <= set(schema["properties"][name]["properties"])
