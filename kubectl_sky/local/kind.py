"""Driver for kind: Kubernetes nodes in Docker containers."""

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import sh

from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.local import kubeconfig
from kubectl_sky.local.driver import CLUSTER, ClusterSpec, ClusterState, Gpus

GPU = "nvidia.com/gpu"
_REMOVE = "remove it with `kubectl sky local down --purge`"
_READY_SECONDS = 180  # until ready, after the images are pulled
_QUERY_SECONDS = 60
_LONG_SECONDS = 1800  # pulls an image of 1 GB
_LABEL = f"label=io.x-k8s.kind.cluster={CLUSTER}"
_CREATE = ("kind", "create", "cluster", "--name", CLUSTER, "--wait", f"{_READY_SECONDS}s")
_KUBECTL = ("docker", "exec", f"{CLUSTER}-control-plane", "kubectl",
            "--kubeconfig", "/etc/kubernetes/admin.conf")  # fmt: skip
_PROGRAMS = {
    "kind": "https://kind.sigs.k8s.io",
    "docker": "https://docs.docker.com/engine/install",
}
_CLI = "or leave out --driver: the practice cluster needs no other program"


class Kind:
    """Create and delete clusters with kind; start and stop them with Docker.

    kind writes to `own_kubeconfig` instead of the user's kubeconfig.
    """

    def __init__(self, own_kubeconfig: Path) -> None:
        self._kubeconfig = own_kubeconfig

    def state(self) -> ClusterState:
        self._require()
        nodes = self._nodes()
        if not nodes:
            return ClusterState.ABSENT
        running = all(state == "running" for state in nodes.values())
        return ClusterState.RUNNING if running else ClusterState.STOPPED

    def start(self, spec: ClusterSpec) -> None:
        """Create the cluster or start the existing one. Delete it if creation fails."""
        self._require()
        nodes = self._nodes()
        if nodes:
            if len(nodes) != spec.nodes:
                raise UserError(
                    f"--nodes {spec.nodes}: the cluster was created with {len(nodes)}", _REMOVE
                )
            if spec.port:
                raise UserError(f"--port {spec.port}: the cluster already has a port", _REMOVE)
            self._resume()
        else:
            with ExitStack() as failure:
                failure.callback(self.delete)
                self._create(spec)
                failure.pop_all()

        if spec.gpus:
            self._simulate_gpus(spec.gpus)

    def stop(self) -> None:
        self._ask("docker", "stop", *self._nodes())

    def delete(self) -> None:
        self._watch("kind", "delete", "cluster", "--name", CLUSTER)

    def kubeconfig(self) -> dict[str, Any]:
        return kubeconfig.parse(self._ask("kind", "get", "kubeconfig", "--name", CLUSTER))

    def details(self) -> dict[str, str | int]:
        return {}

    def _require(self) -> None:
        """Raise SkyError unless kind and a Docker engine are available."""
        for name, address in _PROGRAMS.items():
            if not shutil.which(name):
                raise UserError(f"{name} is not installed", f"see {address}, {_CLI}")
        try:
            self._ask("docker", "version", "--format", "{{.Server.Version}}")
        except ClusterError as error:
            raise ClusterError(
                f"Docker is not running: {error.what.partition(': ')[2] or error.what}",
                f"start it, {_CLI}",
            ) from None

    def _nodes(self) -> dict[str, str]:
        template = "{{.Names}} {{.State}}"
        output = self._ask("docker", "ps", "--all", "--filter", _LABEL, "--format", template)
        return dict(line.split() for line in output.splitlines())

    def _create(self, spec: ClusterSpec) -> None:
        workers = [{"role": "worker"}] * (spec.nodes - 1)
        configuration = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": "control-plane"}, *workers],
            "networking": {"apiServerAddress": "127.0.0.1", "apiServerPort": spec.port or 0},
        }
        self._watch(*_CREATE, "--config", "-", stdin=json.dumps(configuration))

    def _resume(self) -> None:
        self._ask("docker", "start", *self._nodes())
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self._ask(*_KUBECTL, "get", "--raw", "/readyz")
            except ClusterError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"the cluster is not ready after {_READY_SECONDS} s: {error.what}",
                        f"`docker logs {CLUSTER}-control-plane` may say why",
                    ) from None
                time.sleep(1)
            else:
                return

    def _simulate_gpus(self, gpus: Gpus) -> None:
        """Add GPUs to each node's status, as a device plugin does; lost on restart."""
        status = {"status": {"capacity": {GPU: str(gpus.count)}}}
        labels = {f"{GPU}.product": gpus.name, f"{GPU}.count": str(gpus.count)}
        for node in self._ask(*_KUBECTL, "get", "nodes", "-o", "name").split():
            patch = [*_KUBECTL, "patch", node, "--type=merge", "-p"]
            self._ask(*patch, json.dumps(status), "--subresource=status")
            self._ask(*patch, json.dumps({"metadata": {"labels": labels}}))

    def _ask(self, *command: str) -> str:
        """Run a short command and return its output. Raises ClusterError."""
        try:
            return str(self._run(command, _tty_out=False, _timeout=_QUERY_SECONDS))
        except sh.TimeoutException:
            what = f"`{_shorten(command)}` did not respond within {_QUERY_SECONDS} s"
        except sh.ErrorReturnCode as error:
            output = (error.stderr.strip() or error.stdout.strip()).decode(errors="replace")
            last_line = (output.splitlines() or ["no output"])[-1].strip()
            what = f"`{_shorten(command)}` failed ({error.exit_code}): {last_line}"
        raise ClusterError(what)

    def _watch(self, *command: str, stdin: str = "") -> None:
        """Run a long command with its output on stderr. Raises ClusterError."""
        try:
            streams = {"_in": stdin, "_out": sys.stderr, "_err": sys.stderr}
            self._run(command, **streams, _timeout=_LONG_SECONDS)
        except sh.TimeoutException:
            what = f"`{_shorten(command)}` did not end within {_LONG_SECONDS} s"
            raise ClusterError(what, "see its output above") from None
        except sh.ErrorReturnCode as error:
            raise ClusterError(
                f"`{_shorten(command)}` failed ({error.exit_code})", "see its output above"
            ) from None

    def _run(self, command: Sequence[str], **options: object) -> object:
        program: Any = sh.Command(command[0])
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig)}
        return program(*command[1:], _env=environment, **options)


def _shorten(command: Sequence[str]) -> str:
    return " ".join(command[:4]) + (" …" if command[4:] else "")
