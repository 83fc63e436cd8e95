"""Build sdist and wheel of this checkout, and find the Pythons to install them on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import cache, shell

ROOT = Path(__file__).parent.parent
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def build(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """Build `wheel` or `sdist` into a folder that is empty."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def python(version: str) -> Path | None:
    """Return a Python of this version: from PATH, pyenv or uv."""
    for program in _candidates(f"python{version}"):
        command = [str(program), "-c", "import sys, venv; print(sys.version)"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.startswith(f"{version}."):
            return program
    return None


def _candidates(name: str) -> Iterator[Path]:
    if program := shell.find(name):
        yield Path(program)  # of pyenv, it may not run
    yield from sorted(cache.HOME.glob(f".pyenv/versions/*/bin/{name}"))
    yield from sorted(cache.HOME.glob(f".local/share/uv/python/*/bin/{name}"))
