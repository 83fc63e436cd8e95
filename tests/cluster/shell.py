"""Run a program of this machine and turn its failure into one clear line."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

Command = Sequence[str | Path]

_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin")


class Unavailable(Exception):
    """No Kubernetes can be had here; the text says why."""


class Broken(Exception):
    """A Kubernetes could be had here, but it does not work; the text says what went wrong."""


def absent(reason: str) -> NoReturn:
    """End a test whose tool cannot be had: skipped on a developer's machine, failed in CI."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def path() -> str:
    """PATH with the system's programs, which a plain user's PATH may lack."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM))


def find(program: str) -> str | None:
    """Return where a program is."""
    return shutil.which(program, path=path())


def run(
    command: Command,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    text: str | None = None,
) -> str:
    """Run a command to its end and return what it printed. Raises Broken when it fails."""
    stdin = subprocess.DEVNULL if text is None else None
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PATH": path(), **(environment or {})},
        cwd=folder,
        input=text,
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
    )

    if done.returncode:
        end = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise Broken(f"`{' '.join(map(str, command))}` failed ({done.returncode}):\n  {end}")

    return done.stdout
