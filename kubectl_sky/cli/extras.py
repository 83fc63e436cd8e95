"""Packages that only some commands need: the extras of the distribution."""

import sys
from importlib.util import find_spec

from kubectl_sky.errors import UserError


def require(extra: str, *packages: str) -> None:
    if all(map(is_installed, packages)):
        return
    raise UserError(f"the packages of the {extra} are not installed", how_to_install(extra))


def how_to_install(extra: str) -> str:
    command = f"pip install 'kubectl-sky[{extra}]'"
    if getattr(sys, "frozen", False):  # by PyInstaller, for krew
        return f"the archive for krew has no extras; install kubectl-sky with: {command}"
    return f"run: {command}"


def is_installed(package: str) -> bool:
    """Return whether a package is installed, without importing it."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that contains it
        return False
