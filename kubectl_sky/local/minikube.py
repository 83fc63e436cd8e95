"""Clusters of minikube: nodes in containers or virtual machines, as minikube's own settings say."""

import json
from collections.abc import Sequence
from typing import Any

from kubectl_sky.errors import UserError
from kubectl_sky.local import kubeconfig, program
from kubectl_sky.local.containers import Containers
from kubectl_sky.local.driver import CLUSTER, Wanted

_PROFILE = ("--profile", CLUSTER)
_RUNNING = {"OK", "Running"}  # as newer and older versions have it


class Minikube(Containers):
    """minikube does all of it, under a profile of its own."""

    def need(self) -> None:
        """It finds itself what it needs, or says so."""
        program.need("minikube", "https://minikube.sigs.k8s.io")

    def nodes(self) -> Sequence[bool]:
        """The profile has one state for all nodes."""
        listed = json.loads(self.shell.ask("minikube", "profile", "list", "--output", "json"))
        found = [profile for profile in listed["valid"] if profile["Name"] == CLUSTER]
        return [profile["Status"] in _RUNNING for profile in found for _ in _nodes(profile)]

    def create(self, wanted: Wanted) -> None:
        """Its port is the driver's choice."""
        if wanted.port:
            raise UserError(f"--port {wanted.port}: minikube chooses its port itself")
        self._start("--nodes", str(wanted.nodes))

    def resume(self) -> None:
        """As it was made."""
        self._start()

    def stop(self) -> None:
        """Stop all nodes."""
        self.shell.watch("minikube", "stop", *_PROFILE)

    def delete(self) -> None:
        """Remove all nodes."""
        self.shell.watch("minikube", "delete", *_PROFILE)

    def kubeconfig(self) -> dict[str, Any]:
        """It writes the file each time it starts, for its port may be another."""
        return kubeconfig.read(self.shell.kubeconfig)

    def kubectl(self) -> list[str]:
        """It downloads one that suits the cluster."""
        return ["minikube", *_PROFILE, "kubectl", "--"]

    def _start(self, *flags: str) -> None:
        fixed = ["--interactive=false", "--embed-certs", "--wait=all"]
        self.shell.watch("minikube", "start", *_PROFILE, *flags, *fixed)


def _nodes(profile: dict[str, Any]) -> Sequence[object]:
    nodes: Sequence[object] = profile["Config"]["Nodes"]
    return nodes
