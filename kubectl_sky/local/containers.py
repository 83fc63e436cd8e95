"""What the drivers have in common that run Kubernetes in containers or virtual machines."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence

from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.local.driver import Gpus, State, Wanted
from kubectl_sky.local.program import Shell

GPU = "nvidia.com/gpu"
_REMOVE = "remove it with `kubectl sky local down --purge`"


class Containers(ABC):
    """A cluster that a program of others makes. It is called `sky-local` there, too."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    @abstractmethod
    def need(self) -> None:
        """Raise SkyError unless the program can do its work here."""

    @abstractmethod
    def nodes(self) -> Sequence[bool]:
        """Say of each node whether it runs; nothing when there is no cluster."""

    @abstractmethod
    def create(self, wanted: Wanted) -> None:
        """Make the cluster and wait until it is ready."""

    @abstractmethod
    def resume(self) -> None:
        """Start the cluster that was stopped."""

    @abstractmethod
    def delete(self) -> None:
        """Remove it."""

    @abstractmethod
    def kubectl(self) -> list[str]:
        """Return a kubectl that the program brings along, with the cluster chosen."""

    def state(self) -> State:
        """Running only when all of its nodes are."""
        self.need()
        nodes = self.nodes()
        if not nodes:
            return State.ABSENT
        return State.RUNNING if all(nodes) else State.STOPPED

    def start(self, wanted: Wanted) -> None:
        """Make it, or start it as it is. What could not be made whole is removed."""
        self.need()
        nodes = self.nodes()
        if nodes:
            if len(nodes) != wanted.nodes:
                raise UserError(f"--nodes {wanted.nodes}: it was made with {len(nodes)}", _REMOVE)
            if wanted.port:
                raise UserError(f"--port {wanted.port}: its port was chosen already", _REMOVE)
            self.resume()
        else:
            try:
                self.create(wanted)
            except BaseException:  # Ctrl-C, too
                self.delete()
                raise
        if wanted.gpus:
            self._pretend(wanted.gpus)

    def details(self) -> dict[str, str | int]:
        """Nothing else."""
        return {}

    def _pretend(self, gpus: Gpus) -> None:
        """Say of each node that it has GPUs, as their plugin would. Nodes that start forget it."""
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
