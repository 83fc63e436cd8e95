"""Run the programs that make clusters, and turn their failures into one line."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.values import dataclass

_PATIENCE = 60  # seconds for a question; what makes a cluster has limits of its own
_CLI = "or leave --driver away: the practice cluster needs nothing"


def need(name: str, address: str) -> None:
    """Raise UserError unless a program is on PATH."""
    if not shutil.which(name):
        raise UserError(f"{name} is not installed", f"see {address}, {_CLI}")


def need_docker() -> None:
    """Raise SkyError unless a Docker engine answers."""
    need("docker", "https://docs.docker.com/engine/install")
    try:
        _ask(["docker", "version", "--format", "{{.Server.Version}}"], os.environ)
    except ClusterError as error:
        raise ClusterError(
            f"Docker is not running: {error.what.partition(': ')[2] or error.what}",
            f"start it, {_CLI}",
        ) from None


@dataclass(frozen=True)
class Shell:
    """Runs programs whose kubeconfig is `kubeconfig`, whatever the user's is."""

    kubeconfig: Path

    def ask(self, *command: str) -> str:
        """Run a command that takes seconds and return what it printed. Raises ClusterError."""
        return _ask(command, self._environment())

    def watch(self, *command: str, stdin: str = "") -> None:
        """Run one that takes minutes; all it says is a note to the user. Raises ClusterError."""
        done = subprocess.run(
            command,
            env=self._environment(),
            input=stdin,
            stdout=sys.stderr.fileno(),
            text=True,
            check=False,
        )
        if done.returncode:
            raise ClusterError(
                f"`{_told(command)}` failed ({done.returncode})", "what it said is above"
            )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}


def _ask(command: Sequence[str], environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{_told(command)}` has not answered in {_PATIENCE} s") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it says nothing"]
        raise ClusterError(f"`{_told(command)}` failed ({done.returncode}): {lines[-1].strip()}")
    return done.stdout


def _told(command: Sequence[str]) -> str:
    return " ".join(command[:4]) + (" …" if command[4:] else "")
