"""Driver for minikube: nodes in containers or VMs, as its settings say."""

import json
from collections.abc import Sequence
from typing import Any

from kubectl_sky.errors import UserError
from kubectl_sky.local import containers, kubeconfig
from kubectl_sky.local.containers import Containers
from kubectl_sky.local.driver import CLUSTER, ClusterSpec

_PROFILE = ("--profile", CLUSTER)
_RUNNING = {"OK", "Running"}  # newer and older versions


class Minikube(Containers):
    """Create, start, stop and delete a minikube profile."""

    def require(self) -> None:
        """Raise UserError unless minikube is installed; it checks its own requirements."""
        containers.require("minikube", "https://minikube.sigs.k8s.io")

    def nodes(self) -> Sequence[bool]:
        """Return the profile's state for each node: minikube reports one for all."""
        profiles = json.loads(self.shell.ask("minikube", "profile", "list", "--output", "json"))
        matches = [profile for profile in profiles["valid"] if profile["Name"] == CLUSTER]
        return [profile["Status"] in _RUNNING for profile in matches for _ in _nodes(profile)]

    def create(self, spec: ClusterSpec) -> None:
        """Create the cluster; minikube does not let the user choose the port."""
        if spec.port:
            raise UserError(f"--port {spec.port}: minikube chooses its port itself")
        self._start("--nodes", str(spec.nodes))

    def resume(self) -> None:
        """Start the existing profile."""
        self._start()

    def stop(self) -> None:
        """Stop all nodes."""
        self.shell.watch("minikube", "stop", *_PROFILE)

    def delete(self) -> None:
        """Delete all nodes."""
        self.shell.watch("minikube", "delete", *_PROFILE)

    def kubeconfig(self) -> dict[str, Any]:
        """Read the kubeconfig, which minikube rewrites on start: the port may change."""
        return kubeconfig.read(self.shell.kubeconfig)

    def kubectl(self) -> list[str]:
        """Return minikube's kubectl, which it downloads in the cluster's version."""
        return ["minikube", *_PROFILE, "kubectl", "--"]

    def _start(self, *flags: str) -> None:
        common_flags = ["--interactive=false", "--embed-certs", "--wait=all"]
        self.shell.watch("minikube", "start", *_PROFILE, *flags, *common_flags)


def _nodes(profile: dict[str, Any]) -> Sequence[object]:
    nodes: Sequence[object] = profile["Config"]["Nodes"]
    return nodes
