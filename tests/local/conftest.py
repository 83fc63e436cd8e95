"""The command with a home and programs of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Local:
    """`kubectl sky local`, in a home of its own and with no programs but those of a folder."""

    home: Path
    programs: Path

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the user's."""
        return {"HOME": str(self.home), "PATH": str(self.programs), "LC_ALL": "C.UTF-8"}

    @property
    def state(self) -> Path:
        """The folder of the cluster."""
        return self.home / ".local" / "state" / "kubectl-sky" / "local"

    @property
    def users(self) -> Path:
        """The user's own kubeconfig."""
        return self.home / ".kube" / "config"

    def __call__(self, *arguments: str, **environment: str) -> Done:
        """Run it to its end."""
        return subprocess.run(
            [sys.executable, "-m", "kubectl_sky", "local", *arguments],
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )


@pytest.fixture
def local(tmp_path: Path) -> Local:
    programs = tmp_path / "programs"
    programs.mkdir()
    return Local(tmp_path, programs)
