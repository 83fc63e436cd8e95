"""Driver for k3d: k3s nodes in Docker containers."""

import json
from collections.abc import Sequence
from typing import Any

from kubectl_sky.local import containers, kubeconfig
from kubectl_sky.local.containers import Containers
from kubectl_sky.local.driver import CLUSTER, ClusterSpec

_WAIT_FLAGS = ("--wait", "--timeout", "180s")
_ROLES = {"server", "agent"}  # not the load balancer


class K3d(Containers):
    """Create, start, stop and delete clusters with k3d."""

    def require(self) -> None:
        """Raise SkyError unless k3d and a Docker engine are available."""
        containers.require("k3d", "https://k3d.io")
        containers.require_docker()

    def nodes(self) -> Sequence[bool]:
        """List all clusters and select ours: querying a missing cluster is an error."""
        clusters = json.loads(self.shell.ask("k3d", "cluster", "list", "--output", "json"))
        return [
            bool(node["State"]["Running"])
            for cluster in clusters
            if cluster["name"] == CLUSTER
            for node in cluster["nodes"]
            if node["role"] in _ROLES
        ]

    def create(self, spec: ClusterSpec) -> None:
        """Create one server and agents, on 127.0.0.1: k3d's default is all interfaces."""
        nodes = ["--servers", "1", "--agents", str(spec.nodes - 1)]
        port = ["--api-port", f"127.0.0.1:{spec.port or 'random'}"]
        kubeconfig_flag = "--kubeconfig-update-default=false"
        self.shell.watch(
            "k3d", "cluster", "create", CLUSTER, *nodes, *port, kubeconfig_flag, *_WAIT_FLAGS
        )

    def resume(self) -> None:
        """Start the containers."""
        self.shell.watch("k3d", "cluster", "start", CLUSTER, *_WAIT_FLAGS)

    def stop(self) -> None:
        """Stop the containers."""
        self.shell.watch("k3d", "cluster", "stop", CLUSTER)

    def delete(self) -> None:
        """Delete the containers."""
        self.shell.watch("k3d", "cluster", "delete", CLUSTER)

    def kubeconfig(self) -> dict[str, Any]:
        """Return the kubeconfig that k3d prints."""
        return kubeconfig.parse(self.shell.ask("k3d", "kubeconfig", "get", CLUSTER))

    def kubectl(self) -> list[str]:
        """Return the kubectl of the k3s server."""
        return ["docker", "exec", f"k3d-{CLUSTER}-server-0", "kubectl"]
