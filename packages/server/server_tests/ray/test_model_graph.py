"""Graphs are read whole, and all their problems are reported."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_sky_server.ray import model_graph as graph
from kubectl_sky_server.ray import ray_graph_pb2
from kubectl_sky_server.ray import ray_graph_pb2 as proto
from kubectl_sky_server.ray.model_graph import InvalidGraph
from server_tests.ray.graphs import (
    make_application,
    make_bytes,
    make_deployment,
    make_edge,
    make_graph,
)


def problems(message: proto.RayGraph) -> list[str]:
    with pytest.raises(InvalidGraph) as caught:
        graph.parse(message.SerializeToString())
    return list(caught.value.problems)


def descriptor(module: str) -> str:
    (line,) = [line for line in module.splitlines() if "AddSerializedFile" in line]
    return line


def test_compiled_module_matches_schema(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools compiles ray_graph.proto")
    folder = Path(ray_graph_pb2.__file__).parent
    options = [f"-I{folder}", f"--python_out={tmp_path}", "ray_graph.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True)
    compiled = (tmp_path / "ray_graph_pb2.py").read_text()
    # Other versions of the compiler write other code around the same descriptor.
    assert descriptor(compiled) == descriptor(Path(ray_graph_pb2.__file__).read_text()), (
        "compile it again, in packages/server/kubectl_sky_server/ray:"
        " python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. ray_graph.proto"
    )


def test_parse_valid_graph_lists_callees_before_callers() -> None:
    parsed = graph.parse(make_bytes())
    market, hello = parsed.applications
    names = [deployment.name for deployment in market.deployments]
    assert parsed.revision == "7"
    assert sorted(names) == ["mango", "market", "pear", "price"]
    assert names[0] == "price" and names[-1] == "market"
    assert dict(market.deployments[-1].handles) == {"mango": "mango", "pear": "pear"}
    assert [deployment.name for deployment in hello.deployments] == ["hello"]


def test_parse_many_problems_reports_all_at_once() -> None:
    message = make_graph()
    message.deployments.append(make_deployment("price", import_path="nothing"))
    message.edges.extend(
        [make_edge("price", "mango"), make_edge("pear", "nobody"), make_edge("mango", "price")]
    )
    message.applications.append(make_application("hello", "/market", "lost"))
    text = problems(message)
    assert set(text) >= {
        'deployment "price" is defined 2 times',
        'deployment "price": import_path "nothing" is not like "package.module:Name"',
        'application "hello" is defined 2 times',
        'route "/market" is used by 2 applications',
        'edge "pear" -> "nobody": deployment "nobody" not found',
        'deployment "mango": argument "price" has edges to "price", "price"',
        'application "hello": ingress "lost" not found',
    }

    (cycle,) = [line for line in text if line.startswith("cycle")]
    assert cycle in {'cycle: "mango" -> "price" -> "mango"', 'cycle: "price" -> "mango" -> "price"'}


def test_parse_two_cycles_reports_both() -> None:
    message = make_graph()
    message.edges.extend([make_edge("price", "mango"), make_edge("hello", "hello")])
    assert len([line for line in problems(message) if line.startswith("cycle")]) == 2


def change(name: str, **fields: object) -> proto.RayGraph:
    """Return a graph whose deployment of this name is replaced."""
    message = make_graph()
    (index,) = [i for i, item in enumerate(message.deployments) if item.name == name]
    message.deployments[index].MergeFrom(proto.Deployment(**fields))  # type: ignore[arg-type]
    return message


SCALING = proto.Autoscaling
NAN = float("nan")


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (change("price", replicas=0), "replicas must be between 1 and 10000"),
        (change("pear", replicas=2), "replicas and autoscaling are both set"),
        (
            change("pear", autoscaling=SCALING(min_replicas=3)),
            "autoscaling.min_replicas 3 is more than max_replicas 2",
        ),
        (
            change("pear", autoscaling=SCALING(initial_replicas=9)),
            "autoscaling.initial_replicas must be between 1 and 2",
        ),
        (
            change("pear", autoscaling=SCALING(target_ongoing_requests=NAN)),
            "autoscaling.target_ongoing_requests must be more than 0, at most 1000000",
        ),
        (change("price", resources=proto.Resources(gpu=1.5)), "gpu above 1 must be a whole number"),
        (change("price", resources=proto.Resources(cpu=NAN)), "resources.cpu must be between 0"),
        (change("price", resources=proto.Resources(cpu=-1)), "resources.cpu must be between 0"),
        (
            change("price", resources=proto.Resources(custom=[proto.CustomResource(name="GPU")])),
            'custom resource "GPU" is not a valid name',
        ),
        (change("price", max_ongoing_requests=0), "max_ongoing_requests must be between 1"),
        (change("price", user_config_json="[1]"), "user_config_json is not a JSON object"),
        (change("price", user_config_json='{"a": NaN}'), "user_config_json is not a JSON object"),
        (change("price", user_config_json='{"a": 1e999}'), "user_config_json is not a JSON"),
        (change("price", user_config_json='{"a": "\\ud800"}'), "user_config_json is not a JSON"),
        (change("price", arguments_json='{"a":' + "[" * 99_999), "arguments_json is not a JSON"),
        (
            change("market", arguments_json='{"pear": 1}'),
            'argument "pear" is also in arguments_json',
        ),
        (change("price", import_path="os.path:join\n"), "is not like"),
    ],
)
def test_parse_wrong_deployment_names_problem(message: proto.RayGraph, problem: str) -> None:
    (text,) = problems(message)
    assert problem in text


@pytest.mark.parametrize(
    "route", ["", "market", "/a/", "//a", "/a//b", "/../a", "/a/..", "/{x}", "/a b", "/a?b", "/-/x"]
)
def test_parse_wrong_route_is_refused(route: str) -> None:
    message = make_graph()
    message.applications[0].route_prefix = route
    (text,) = problems(message)
    assert "route_prefix" in text


@pytest.mark.parametrize("route", ["/", "/a", "/a.b/v1", "/...", "/a/-"])
def test_parse_valid_route_is_accepted(route: str) -> None:
    message = make_graph()
    message.applications[0].route_prefix = route
    assert graph.parse(message.SerializeToString())


@pytest.mark.parametrize("argument", ["", "1x", "class", "a-b", "a\n"])
def test_parse_edge_with_invalid_argument_is_refused(argument: str) -> None:
    message = make_graph()
    message.edges[0].argument = argument
    (text,) = problems(message)
    assert "is not a Python identifier" in text


def test_parse_deployment_of_two_applications_is_refused() -> None:
    message = make_graph()
    message.applications.append(make_application("other", "/other", "mango"))
    assert 'deployment "mango" belongs to several applications: "market", "other"' in problems(
        message
    )


def test_parse_unreachable_deployment_is_refused() -> None:
    message = make_graph()
    del message.applications[1]
    (text,) = problems(message)
    assert text == 'deployment "hello" is not reachable from the ingress of an application'


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_parse_other_schema_version_is_refused(version: int) -> None:
    message = make_graph()
    message.schema_version = version
    with pytest.raises(InvalidGraph, match="this controller supports 1") as caught:
        graph.parse(message.SerializeToString())
    assert caught.value.reason == "UnsupportedVersion"


@pytest.mark.parametrize("revision", ["", "a b", "x" * 129, "\n", "é"])
def test_parse_invalid_revision_is_refused(revision: str) -> None:
    assert "revision must have" in problems(make_graph(revision))[0]


@pytest.mark.parametrize(
    ("prefix", "where"),
    [
        (b"", "graph: unknown field 99"),
        # field 3, a deployment of its own, which has only the unknown field
        (b"\x1a\x03", "graph.deployments[5]: unknown field 99"),
    ],
)
def test_parse_unknown_field_is_refused(prefix: bytes, where: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        graph.parse(make_bytes() + prefix + b"\x98\x06\x01")
    assert (caught.value.reason, caught.value.problems) == ("UnknownFields", (where,))


def test_parse_truncated_bytes_is_always_refused() -> None:
    """Fields are optional in protobuf: some truncated graphs are only refused by their meaning."""
    data = make_bytes()
    reasons = set()
    for length in range(len(data)):
        with pytest.raises(InvalidGraph) as caught:
            graph.parse(data[:length])
        reasons.add(caught.value.reason)
    assert reasons == {"InvalidProtobuf", "InvalidGraph"}


def test_parse_too_large_graph_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="has more than 1048576 bytes"):
        graph.parse(b"x" * (graph.MAX_BYTES + 1))


def test_parse_too_many_deployments_is_refused_once() -> None:
    message = make_graph()
    message.deployments.extend(make_deployment(f"d{number}") for number in range(500))
    assert problems(message) == ["505 deployments: the limit is 500"]


def test_parse_problems_are_bounded_and_have_no_control_characters() -> None:
    message = make_graph()
    message.deployments.extend(make_deployment("\x1b[31m" + "x" * n) for n in range(400))
    with pytest.raises(InvalidGraph) as caught:
        graph.parse(message.SerializeToString())
    assert len(str(caught.value)) < 20_000
    assert "more problems" in str(caught.value)
    assert str(caught.value).isprintable()


def test_parse_deep_graph_does_not_recurse() -> None:
    message = proto.RayGraph(schema_version=1, revision="1")
    message.deployments.extend(make_deployment(f"d{number}") for number in range(500))
    message.edges.extend(make_edge(f"d{n}", f"d{n + 1}", "next") for n in range(499))
    message.applications.append(make_application(ingress="d0"))
    (application,) = graph.parse(message.SerializeToString()).applications
    assert [item.name for item in application.deployments][:2] == ["d499", "d498"]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_parse_changed_bytes_is_graph_or_invalid(data: st.DataObject) -> None:
    original = bytearray(make_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(original) - 1))
        original[place] = data.draw(st.integers(0, 255))
    try:
        parsed = graph.parse(bytes(original))
    except InvalidGraph as error:
        assert error.problems
        assert str(error).isprintable()
    else:
        assert parsed.applications
