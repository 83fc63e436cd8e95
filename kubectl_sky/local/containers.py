"""Base class of drivers whose program runs Kubernetes in containers or virtual machines."""

import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import sh
from msgspec import Struct

from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.local.driver import ClusterSpec, ClusterState, Gpus

GPU = "nvidia.com/gpu"
_REMOVE = "remove it with `kubectl sky local down --purge`"


_TIMEOUT = 60  # seconds for a query; commands that create clusters have their own limits
_CLI = "or leave out --driver: the practice cluster needs no other program"


def require(name: str, address: str) -> None:
    """Raise UserError unless a program is on the PATH."""
    if not shutil.which(name):
        raise UserError(f"{name} is not installed", f"see {address}, {_CLI}")


def require_docker() -> None:
    """Raise SkyError unless a Docker engine is running."""
    require("docker", "https://docs.docker.com/engine/install")
    try:
        _ask(["docker", "version", "--format", "{{.Server.Version}}"], os.environ)
    except ClusterError as error:
        raise ClusterError(
            f"Docker is not running: {error.what.partition(': ')[2] or error.what}",
            f"start it, {_CLI}",
        ) from None


class Shell(Struct, frozen=True):
    """Run programs with `kubeconfig` instead of the user's kubeconfig."""

    kubeconfig: Path

    def ask(self, *command: str) -> str:
        """Run a short command and return its output. Raises ClusterError."""
        return _ask(command, self._environment())

    def watch(self, *command: str, stdin: str = "") -> None:
        """Run a long command with its output on stderr. Raises ClusterError."""
        streams = {"_in": stdin, "_out": sys.stderr, "_err": sys.stderr}
        try:
            _run(command, self._environment(), **streams)
        except sh.ErrorReturnCode as error:
            raise ClusterError(
                f"`{_shortened(command)}` failed ({error.exit_code})", "see its output above"
            ) from None

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}


def _ask(command: Sequence[str], environment: Mapping[str, str]) -> str:
    try:
        return str(_run(command, environment, _tty_out=False, _timeout=_TIMEOUT))
    except sh.TimeoutException:
        what = f"`{_shortened(command)}` did not respond within {_TIMEOUT} s"
    except sh.ErrorReturnCode as error:
        output = (error.stderr.strip() or error.stdout.strip()).decode(errors="replace")
        last_line = (output.splitlines() or ["no output"])[-1].strip()
        what = f"`{_shortened(command)}` failed ({error.exit_code}): {last_line}"
    raise ClusterError(what)


def _run(command: Sequence[str], environment: Mapping[str, str], **options: object) -> object:
    program: Any = sh.Command(command[0])
    return program(*command[1:], _env=dict(environment), **options)


def _shortened(command: Sequence[str]) -> str:
    return " ".join(command[:4]) + (" …" if command[4:] else "")


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
            with ExitStack() as failure:
                failure.callback(self.delete)
                self.create(spec)
                failure.pop_all()
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
