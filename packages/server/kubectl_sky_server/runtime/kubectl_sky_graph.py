"""Build an application of Ray Serve from a graph: the ray controller mounts this into Ray pods.

serveConfigV2 names `kubectl_sky_graph:build`. Each deployment is imported from the image and bound
once; callers get handles of their callees as keyword arguments of their constructor.
"""

import importlib

from ray import serve


def build(args: dict):
    """Return the application: its ingress, bound to all deployments that it reaches.

    `args["deployments"]` lists callees before their callers.
    """
    bound = {}
    for node in args["deployments"]:
        handles = {argument: bound[callee] for argument, callee in node["handles"].items()}
        bound[node["name"]] = load(node).bind(**node["arguments"], **handles)
    return bound[args["ingress"]]


def load(node):
    """Return the deployment of a node, under the name that it has in the graph."""
    module, _, name = node["import_path"].partition(":")
    target = getattr(importlib.import_module(module), name)
    if not isinstance(target, serve.Deployment):
        target = serve.deployment(target)
    return target.options(name=node["name"])
