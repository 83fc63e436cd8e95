"""Base class of drivers that run Kubernetes in containers or virtual machines."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence

from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.local.driver import ClusterSpec, ClusterState, Gpus
from kubectl_sky.local.program import Shell

GPU = "nvidia.com/gpu"
_REMOVE = "remove it with `kubectl sky local down --purge`"


class Containers(ABC):
    """A cluster managed by an external program, under the name `sky-local`."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    @abstractmethod
    def require(self) -> None:
        """Raise SkyError unless the program can run on this machine."""

    @abstractmethod
    def nodes(self) -> Sequence[bool]:
        """Return for each node whether it is running; empty if there is no cluster."""

    @abstractmethod
    def create(self, spec: ClusterSpec) -> None:
        """Create the cluster and wait until it is ready."""

    @abstractmethod
    def resume(self) -> None:
        """Start the stopped cluster."""

    @abstractmethod
    def delete(self) -> None:
        """Delete the cluster."""

    @abstractmethod
    def kubectl(self) -> list[str]:
        """Return the command of the program's own kubectl for this cluster."""

    def state(self) -> ClusterState:
        """Return the cluster's state: RUNNING only if all nodes are running."""
        self.require()
        nodes = self.nodes()
        if not nodes:
            return ClusterState.ABSENT
        return ClusterState.RUNNING if all(nodes) else ClusterState.STOPPED

    def start(self, spec: ClusterSpec) -> None:
        """Create the cluster or start the existing one. Delete it if creation fails."""
        self.require()
        nodes = self.nodes()
        if nodes:
            if len(nodes) != spec.nodes:
                raise UserError(
                    f"--nodes {spec.nodes}: the cluster was created with {len(nodes)}", _REMOVE
                )
            if spec.port:
                raise UserError(f"--port {spec.port}: the cluster already has a port", _REMOVE)
            self.resume()
        else:
            try:
                self.create(spec)
            except BaseException:  # includes Ctrl-C
                self.delete()
                raise
        if spec.gpus:
            self._simulate_gpus(spec.gpus)

    def details(self) -> dict[str, str | int]:
        """Return no further details."""
        return {}

    def _simulate_gpus(self, gpus: Gpus) -> None:
        """Add GPUs to each node's status, as a device plugin does; lost on restart."""
        status = {"status": {"capacity": {GPU: str(gpus.count)}}}
        labels = {f"{GPU}.product": gpus.name, f"{GPU}.count": str(gpus.count)}
        kubectl = self.kubectl()
        nodes = self.shell.ask(*kubectl, "get", "nodes", "-o", "name").split()
        if not nodes:
            raise ClusterError("the cluster has no nodes", _REMOVE)
        for node in nodes:
            patch = [*kubectl, "patch", node, "--type=merge", "-p"]
            self.shell.ask(*patch, json.dumps(status), "--subresource=status")
            self.shell.ask(*patch, json.dumps({"metadata": {"labels": labels}}))
