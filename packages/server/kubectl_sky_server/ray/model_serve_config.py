"""Turn a graph into the serveConfigV2 of a RayService.

The config names one builder for every application, `runtime/kubectl_sky_graph.py`, which the
controller mounts into the Ray pods. Its arguments hold the structure of the graph: it binds the
deployments along the edges. Options of deployments are in the config itself, so that Ray Serve
changes them without a restart where it can.
"""

from typing import Any

import yaml

from kubectl_sky_server.ray.model_graph import (
    Application,
    Autoscaling,
    Deployment,
    Graph,
    Json,
    Resources,
)

BUILDER = "kubectl_sky_graph"  # the module in the Ray pods


class _Dumper(yaml.SafeDumper):
    """Quote all strings: KubeRay's parser reads other plain strings as numbers than PyYAML's."""

    def ignore_aliases(self, data: object) -> bool:
        """Write repeated objects in full."""
        return True


def _quote(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _quote)


def serve_config(graph: Graph) -> Json:
    """Return the config: the fields of `ray.serve.schema.ServeDeploySchema`."""
    return {"applications": [_application(item) for item in graph.applications]}


def write(config: Json) -> str:
    """Return the config as the string that serveConfigV2 takes."""
    text: str = yaml.dump(config, Dumper=_Dumper, sort_keys=False, allow_unicode=False, width=1000)
    return text


def _application(application: Application) -> Json:
    fields: Json = {
        "name": application.name,
        "route_prefix": application.route_prefix,
        "import_path": f"{BUILDER}:build",
        "args": {
            "ingress": application.ingress,
            "deployments": [_node(item) for item in application.deployments],
        },
        "deployments": [_options(item) for item in application.deployments],
    }
    if application.runtime_env:
        fields["runtime_env"] = application.runtime_env
    return fields


def _node(deployment: Deployment) -> Json:
    """Return what the builder needs to bind a deployment."""
    return {
        "name": deployment.name,
        "import_path": deployment.import_path,
        "arguments": deployment.arguments,
        "handles": dict(deployment.handles),
    }


def _options(deployment: Deployment) -> Json:
    options: Json = {
        "name": deployment.name,
        "num_replicas": deployment.replicas,
        "autoscaling_config": _autoscaling(deployment.autoscaling),
        "max_ongoing_requests": deployment.max_ongoing_requests,
        "max_queued_requests": deployment.max_queued_requests,
        "user_config": deployment.user_config,
        "ray_actor_options": _resources(deployment.resources),
    }
    return _without_defaults(options)


def _autoscaling(scaling: Autoscaling | None) -> Json:
    if scaling is None:
        return {}
    return _without_defaults(
        {
            "min_replicas": scaling.min_replicas,
            "max_replicas": scaling.max_replicas,
            "initial_replicas": scaling.initial_replicas,
            "target_ongoing_requests": scaling.target_ongoing_requests,
            "upscale_delay_s": scaling.upscale_delay_seconds,
            "downscale_delay_s": scaling.downscale_delay_seconds,
        }
    )


def _resources(resources: Resources) -> Json:
    return _without_defaults(
        {
            "num_cpus": resources.cpu,
            "num_gpus": resources.gpu,
            "memory": resources.memory,
            "accelerator_type": resources.accelerator_type or None,
            "resources": dict(resources.custom),
        }
    )


def _without_defaults(options: dict[str, Any]) -> Json:
    return {name: value for name, value in options.items() if value is not None and value != {}}
