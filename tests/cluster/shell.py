"""Run a program of this machine and turn its failure into one clear line."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin")


class Unavailable(Exception):
    """There is no way to a Kubernetes here; the text says why."""


def path() -> str:
    """PATH with the system's programs, which a plain user's PATH may lack."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM))


def find(program: str) -> str | None:
    """Return where a program is."""
    return shutil.which(program, path=path())


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    text: str | None = None,
) -> str:
    """Run a command to its end and return what it printed. Raises Unavailable when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PATH": path(), **(environment or {})},
        cwd=folder,
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        end = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise Unavailable(f"`{' '.join(map(str, command))}` failed ({done.returncode}):\n  {end}")
    return done.stdout
