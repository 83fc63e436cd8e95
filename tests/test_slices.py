"""A slice is a folder and its registry lines: without both, every door still starts."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import ROOT

# The tables of slices. A line of one names the folder of its slice; the lines of the same file that
# describe what it registers go with it: the purpose of a command, the use of a router.
REGISTRIES = ("__init__.py", "cli/main.py", "cli/complete.py", "server/app.py")
DOORS = """
import kubectl_sky.api.client, kubectl_sky.controllers.run, kubectl_sky.server.app
from kubectl_sky.cli import main
raise SystemExit(main.main(["--help"]))
"""


def unregister(text: str, folder: str) -> str:
    """Return a registry without the lines of a slice."""
    lines = text.splitlines(keepends=True)
    row = re.compile(rf'"{folder}\.|kubectl_sky\.{folder} import')
    names = re.findall(r'"([\w-]+)": "|import \w+ as (\w+)', "".join(filter(row.search, lines)))
    words = "|".join(filter(None, (name for pair in names for name in pair)))
    entry = re.compile(rf'\s+"?({words})"?[:,]')
    kept = "".join(line for line in lines if not row.search(line) and not entry.match(line))
    return re.sub(r'\n +"[\w ]+": \{\n +\},', "", kept)  # a group of commands that is empty now


@pytest.mark.parametrize("folder", ["dev", "fairshare", "gpus", "install", "ray", "serve", "users"])
def test_doors_without_a_slice_and_its_registry_lines_start(folder: str, tmp_path: Path) -> None:
    package = tmp_path / "kubectl_sky"
    ignored = shutil.ignore_patterns("static", "practice")
    shutil.copytree(ROOT / "kubectl_sky", package, ignore=ignored)
    shutil.rmtree(package / folder)
    for name in REGISTRIES:
        file = package / name
        file.write_text(unregister(file.read_text(), folder))
    done = subprocess.run(
        [sys.executable, "-c", DOORS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^ +{folder} ", done.stdout, re.MULTILINE) is None
    assert re.search(r"^ +submit ", done.stdout, re.MULTILINE)
