"""Clusters of k3d: k3s nodes that are Docker containers."""

import json
from collections.abc import Sequence
from typing import Any

from kubectl_sky.local import kubeconfig, program
from kubectl_sky.local.containers import Containers
from kubectl_sky.local.driver import CLUSTER, Wanted

_WAIT = ("--wait", "--timeout", "180s")
_ROLES = {"server", "agent"}  # and no load balancer


class K3d(Containers):
    """k3d does all of it."""

    def need(self) -> None:
        """It takes k3d and a Docker engine."""
        program.need("k3d", "https://k3d.io")
        program.need_docker()

    def nodes(self) -> Sequence[bool]:
        """Find it in the list of all clusters: asking for one that is not there is an error."""
        clusters = json.loads(self.shell.ask("k3d", "cluster", "list", "--output", "json"))
        return [
            bool(node["State"]["Running"])
            for cluster in clusters
            if cluster["name"] == CLUSTER
            for node in cluster["nodes"]
            if node["role"] in _ROLES
        ]

    def create(self, wanted: Wanted) -> None:
        """One server; the other nodes are agents. Left to itself k3d listens to the network."""
        nodes = ["--servers", "1", "--agents", str(wanted.nodes - 1)]
        port = ["--api-port", f"127.0.0.1:{wanted.port or 'random'}"]
        own = "--kubeconfig-update-default=false"
        self.shell.watch("k3d", "cluster", "create", CLUSTER, *nodes, *port, own, *_WAIT)

    def resume(self) -> None:
        """Start its containers."""
        self.shell.watch("k3d", "cluster", "start", CLUSTER, *_WAIT)

    def stop(self) -> None:
        """Stop its containers."""
        self.shell.watch("k3d", "cluster", "stop", CLUSTER)

    def delete(self) -> None:
        """Remove its containers."""
        self.shell.watch("k3d", "cluster", "delete", CLUSTER)

    def kubeconfig(self) -> dict[str, Any]:
        """Ask k3d."""
        return kubeconfig.parse(self.shell.ask("k3d", "kubeconfig", "get", CLUSTER))

    def kubectl(self) -> list[str]:
        """k3s has one."""
        return ["docker", "exec", f"k3d-{CLUSTER}-server-0", "kubectl"]
