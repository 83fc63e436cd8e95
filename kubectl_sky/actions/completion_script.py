"""The script `kubectl_complete-sky`, which kubectl starts to complete `kubectl sky`.

Python packages bring it. krew links one program per plugin only, so it is written to PATH.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from kubectl_sky.errors import UserError
from kubectl_sky.words import private

NAME = "kubectl_complete-sky"
PROGRAM = "kubectl-sky"
_MARK = "# Written by `kubectl sky completion install`."
SCRIPT = f"""\
#!/bin/sh
{_MARK}
exec {PROGRAM} __complete "$@"
"""


def install(folder: str | None, environ: Mapping[str, str]) -> tuple[Path, bool]:
    """Write the script; return its path, and False if kubectl has a script already.

    Raises UserError if no folder of PATH can be written to.
    """
    existing = shutil.which(NAME, path=environ.get("PATH", ""))
    if existing and not folder:
        return Path(existing), False
    path = (Path(folder) if folder else _writable_folder(environ)) / NAME
    if path.exists() and not _is_ours(path):
        raise UserError(f"{path} already exists", "choose another folder of PATH with --dir")
    try:
        private.replace(path, SCRIPT.encode(), 0o777)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {(error.strerror or '').lower()}") from None
    return path, True


def uninstall(environ: Mapping[str, str]) -> Path:
    """Remove the script from PATH and return its path. Raises UserError if it is not there."""
    for folder in _folders(environ):
        path = folder / NAME
        if _is_ours(path):
            try:
                path.unlink()
            except OSError as error:
                reason = (error.strerror or "").lower()
                raise UserError(f"{path}: cannot be deleted: {reason}") from None
            return path
    existing = shutil.which(NAME, path=environ.get("PATH", ""))
    if existing:
        raise UserError(f"{existing} belongs to the Python package", "uninstall it with pip")
    raise UserError(f"{NAME} not found on PATH")


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of PATH; relative ones depend on the working directory."""
    for name in environ.get("PATH", "").split(os.pathsep):
        if Path(name).is_absolute():
            yield Path(name)


def _writable_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the plugin, or else the first folder of PATH in the user's home."""
    program = shutil.which(PROGRAM, path=environ.get("PATH", ""))
    home = Path(environ.get("HOME") or "/nonexistent")
    candidates = [Path(program).parent] if program else []
    candidates += [folder for folder in _folders(environ) if folder.is_relative_to(home)]
    for folder in candidates:
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder
    raise UserError("no folder of PATH is writable", "choose one with --dir")


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
