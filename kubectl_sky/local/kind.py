"""Clusters of kind: Kubernetes nodes that are Docker containers."""

import json
import time
from collections.abc import Sequence
from typing import Any

from kubectl_sky.errors import ClusterError
from kubectl_sky.local import kubeconfig, program
from kubectl_sky.local.containers import Containers
from kubectl_sky.local.driver import CLUSTER, Wanted

_SECONDS = 180.0  # to be ready in, after the images have come
_LABEL = f"label=io.x-k8s.kind.cluster={CLUSTER}"


class Kind(Containers):
    """kind makes and deletes; it cannot stop and start, but Docker can."""

    def need(self) -> None:
        """It takes kind and a Docker engine."""
        program.need("kind", "https://kind.sigs.k8s.io")
        program.need_docker()

    def nodes(self) -> Sequence[bool]:
        """Docker knows, by the label that kind gives them."""
        return [state == "running" for _, state in self._containers()]

    def create(self, wanted: Wanted) -> None:
        """The nodes and the port stand in kind's configuration."""
        workers = [{"role": "worker"}] * (wanted.nodes - 1)
        configuration = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": "control-plane"}, *workers],
            "networking": {"apiServerAddress": "127.0.0.1", "apiServerPort": wanted.port or 0},
        }
        create = ["kind", "create", "cluster", "--name", CLUSTER, "--wait", f"{_SECONDS:.0f}s"]
        self.shell.watch(*create, "--config", "-", stdin=json.dumps(configuration))

    def resume(self) -> None:
        """Start the containers and wait for the API server."""
        self.shell.ask("docker", "start", *self._names())
        end = time.monotonic() + _SECONDS
        while True:
            try:
                self.shell.ask(*self.kubectl(), "get", "--raw", "/readyz")
            except ClusterError as error:
                if time.monotonic() > end:
                    raise ClusterError(
                        f"the cluster is not ready after {_SECONDS:.0f} s: {error.what}",
                        f"`docker logs {CLUSTER}-control-plane` may say why",
                    ) from None
                time.sleep(1)
            else:
                return

    def stop(self) -> None:
        """Stop the containers."""
        self.shell.ask("docker", "stop", *self._names())

    def delete(self) -> None:
        """Remove the containers."""
        self.shell.watch("kind", "delete", "cluster", "--name", CLUSTER)

    def kubeconfig(self) -> dict[str, Any]:
        """Ask kind."""
        return kubeconfig.parse(self.shell.ask("kind", "get", "kubeconfig", "--name", CLUSTER))

    def kubectl(self) -> list[str]:
        """Each node's image has one."""
        kubectl = ["kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"]
        return ["docker", "exec", f"{CLUSTER}-control-plane", *kubectl]

    def _names(self) -> list[str]:
        return [name for name, _ in self._containers()]

    def _containers(self) -> list[tuple[str, str]]:
        form = "{{.Names}} {{.State}}"
        listed = self.shell.ask("docker", "ps", "--all", "--filter", _LABEL, "--format", form)
        return [(name, state) for name, state in map(str.split, listed.splitlines())]
