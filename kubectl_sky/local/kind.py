"""Driver for kind: Kubernetes nodes in Docker containers."""

import json
import time
from collections.abc import Sequence
from typing import Any

from kubectl_sky.errors import ClusterError
from kubectl_sky.local import containers, kubeconfig
from kubectl_sky.local.containers import Containers
from kubectl_sky.local.driver import CLUSTER, ClusterSpec

_READY_SECONDS = 180.0  # until ready, after the images are pulled
_LABEL = f"label=io.x-k8s.kind.cluster={CLUSTER}"


class Kind(Containers):
    """Create and delete clusters with kind; start and stop them with Docker."""

    def require(self) -> None:
        """Raise SkyError unless kind and a Docker engine are available."""
        containers.require("kind", "https://kind.sigs.k8s.io")
        containers.require_docker()

    def nodes(self) -> Sequence[bool]:
        """Return the state of the Docker containers with kind's label."""
        return [state == "running" for _, state in self._containers()]

    def create(self, spec: ClusterSpec) -> None:
        """Create the cluster from a kind configuration with its nodes and port."""
        workers = [{"role": "worker"}] * (spec.nodes - 1)
        configuration = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": "control-plane"}, *workers],
            "networking": {"apiServerAddress": "127.0.0.1", "apiServerPort": spec.port or 0},
        }
        create = [
            "kind",
            "create",
            "cluster",
            "--name",
            CLUSTER,
            "--wait",
            f"{_READY_SECONDS:.0f}s",
        ]
        self.shell.watch(*create, "--config", "-", stdin=json.dumps(configuration))

    def resume(self) -> None:
        """Start the containers and wait for the API server."""
        self.shell.ask("docker", "start", *self._names())
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self.shell.ask(*self.kubectl(), "get", "--raw", "/readyz")
            except ClusterError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"the cluster is not ready after {_READY_SECONDS:.0f} s: {error.what}",
                        f"`docker logs {CLUSTER}-control-plane` may say why",
                    ) from None
                time.sleep(1)
            else:
                return

    def stop(self) -> None:
        """Stop the containers."""
        self.shell.ask("docker", "stop", *self._names())

    def delete(self) -> None:
        """Delete the containers."""
        self.shell.watch("kind", "delete", "cluster", "--name", CLUSTER)

    def kubeconfig(self) -> dict[str, Any]:
        """Return the kubeconfig that kind prints."""
        return kubeconfig.parse(self.shell.ask("kind", "get", "kubeconfig", "--name", CLUSTER))

    def kubectl(self) -> list[str]:
        """Return the kubectl of the node image."""
        kubectl = ["kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"]
        return ["docker", "exec", f"{CLUSTER}-control-plane", *kubectl]

    def _names(self) -> list[str]:
        return [name for name, _ in self._containers()]

    def _containers(self) -> list[tuple[str, str]]:
        template = "{{.Names}} {{.State}}"
        output = self.shell.ask("docker", "ps", "--all", "--filter", _LABEL, "--format", template)
        return [(name, state) for name, state in map(str.split, output.splitlines())]
