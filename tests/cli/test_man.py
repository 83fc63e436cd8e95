"""The man pages: one per command, from the same source as --help."""

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.commands import commands

pytestmark = pytest.mark.tools  # click-man

ROOT = Path(__file__).parents[2]


def test_man_pages_have_every_option_and_example_and_no_error(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ".ci/man.py", str(tmp_path)], cwd=ROOT, check=True)
    pages = {path.stem: path.read_text() for path in (tmp_path / "man1").iterdir()}
    for name, command in commands().items():
        page = pages[f"kubectl-sky-{name.replace(' ', '-')}"]
        options = [option for option in command.params if isinstance(option, click.Option)]
        assert all(option.opts[0].replace("-", r"\-") in page for option in options)
        assert all(f"kubectl sky {example}" in page for example in command.examples)
    assert "kubectl-sky-submit(1)" in pages["kubectl-sky"]
    if groff := shutil.which("groff"):
        files = sorted(map(str, (tmp_path / "man1").iterdir()))
        arguments = [groff, "-man", "-ww", "-z", "-Tutf8", "-Kutf8", *files]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
