"""Run the programs that create clusters, and report their failures in one line."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sh

from kubectl_sky.errors import ClusterError, UserError

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


@dataclass(frozen=True)
class Shell:
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
