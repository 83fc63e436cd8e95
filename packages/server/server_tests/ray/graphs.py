"""Builders of ray graphs, valid by default: a market that calls two stands, which call a price."""

from typing import Any

from kubectl_sky_server.ray import ray_graph_pb2 as proto

Json = dict[str, Any]

FRUIT = "server_tests.ray.fruit"


def make_deployment(name: str, target: str = "Stand", **fields: object) -> proto.Deployment:
    resources = proto.Resources(cpu=0)
    values = {"import_path": f"{FRUIT}:{target}", "resources": resources, **fields}
    return proto.Deployment(name=name, **values)  # type: ignore[arg-type]


def make_edge(caller: str, callee: str, argument: str = "") -> proto.Edge:
    return proto.Edge(caller=caller, callee=callee, argument=argument or callee)


def make_application(
    name: str = "market", route: str = "/market", ingress: str = "market", runtime_env: str = ""
) -> proto.Application:
    return proto.Application(
        name=name, route_prefix=route, ingress=ingress, runtime_env_json=runtime_env
    )


def make_graph(revision: str = "7", base: int = 2) -> proto.RayGraph:
    return proto.RayGraph(
        schema_version=1,
        revision=revision,
        deployments=[
            make_deployment(
                "price",
                "Price",
                user_config_json='{"factor": 3}',
                arguments_json=f'{{"base": {base}}}',
            ),
            make_deployment("mango", replicas=1),
            make_deployment("pear", autoscaling=proto.Autoscaling(max_replicas=2)),
            make_deployment("market", "Market"),
            make_deployment("hello", "hello"),
        ],
        edges=[
            make_edge("mango", "price"),
            make_edge("pear", "price"),
            make_edge("market", "mango"),
            make_edge("market", "pear"),
        ],
        applications=[make_application(), make_application("hello", "/hello", "hello")],
    )


def make_bytes(revision: str = "7", base: int = 2) -> bytes:
    return make_graph(revision, base).SerializeToString()


def make_pod(**container: object) -> Json:
    return {"spec": {"containers": [{"name": "ray", "image": "ray:1", **container}]}}


def make_spec() -> Json:
    """Return the spec of a RayService."""
    group = {"groupName": "cpu", "replicas": 1, "minReplicas": 1, "maxReplicas": 2}
    return {
        "rayClusterConfig": {
            "rayVersion": "2.50.0",
            "headGroupSpec": {"rayStartParams": {}, "template": make_pod()},
            "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": make_pod()}],
        }
    }
