"""The Kustomize bases in deploy/ are the output of the commands that they name."""

import os
import re
import shlex
from pathlib import Path

import pytest

from kubectl_sky.cli import main

DEPLOY = Path(__file__).parents[2] / "deploy"
COMMAND = re.compile(r"^#   kubectl sky (.*) > (\S+)$", re.MULTILINE)


@pytest.mark.parametrize("base", ["server", "controllers"])
def test_deploy_base_matches_output_of_its_command(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`UPDATE_GOLDEN=1` writes it."""
    folder = DEPLOY / "base" / base
    ((arguments, name),) = COMMAND.findall((folder / "kustomization.yaml").read_text())
    assert main.main(shlex.split(arguments)) == 0
    text = capsys.readouterr().out
    if os.environ.get("UPDATE_GOLDEN"):
        (folder / name).write_text(text)
    assert (folder / name).read_text() == text, (
        "UPDATE_GOLDEN=1 pytest packages/server/server_tests/install/test_deploy.py"
    )
