"""Mounts below a folder: unmount them all, so that the folder can be removed."""

import re
import shutil
from pathlib import Path

from tests.cluster.shell import run

_TABLE = Path("/proc/self/mounts")


def remove(folder: Path) -> None:
    """Remove a folder, and first what is mounted in it: never what lies behind a mount."""
    for _ in range(3):  # a mount may hide another
        for mount in below(folder):
            run(["umount", "--lazy", mount])
        if not below(folder):
            break
    else:
        raise OSError(f"{folder} still has mounts")
    shutil.rmtree(folder, ignore_errors=True)


def below(folder: Path) -> list[str]:
    """Return the mount points below a folder, the deepest first."""
    if not _TABLE.exists():  # not Linux: nothing was mounted
        return []
    fields = (line.split() for line in _TABLE.read_text().splitlines())
    points = (re.sub(r"\\(\d{3})", _character, field[1]) for field in fields)
    return sorted((p for p in points if p.startswith(f"{folder}/")), reverse=True)


def _character(octal: re.Match[str]) -> str:
    return chr(int(octal[1], 8))
