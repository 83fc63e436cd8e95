"""The command with a home and programs of its own."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from kubectl_sky.cli import main

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Local:
    """`kubectl sky local`, in a home of its own and with no programs but those of a folder."""

    home: Path
    programs: Path
    capture: pytest.CaptureFixture[str]

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": str(self.programs), "LC_ALL": "C.UTF-8"}

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "kubectl-sky" / "local"

    @property
    def users(self) -> Path:
        return self.home / ".kube" / "config"

    def __call__(self, *arguments: str, **environment: str) -> Done:
        with mock.patch.dict(os.environ, self.environment | environment, clear=True):
            code = main.main(["local", *arguments])
        return Done(arguments, code, *self.capture.readouterr())


@pytest.fixture
def local(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Local:
    programs = tmp_path / "programs"
    programs.mkdir()
    return Local(tmp_path, programs, capfd)
