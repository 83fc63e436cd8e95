"""The program without a cluster."""

from pathlib import Path

import pytest

from tests.e2e.command import PROGRAM, Command, InProcess


@pytest.fixture
def sky(tmp_path: Path) -> Command:
    """This program in the process of the test, at a home without a kubeconfig."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    return InProcess(PROGRAM, environment | {"TOKEN": "not-to-be-printed"}, tmp_path)
