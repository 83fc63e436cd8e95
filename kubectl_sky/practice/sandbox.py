"""What a container sees as its files, and the steps that get it there without rights.

All of the host can be read, at its usual paths. What can be written to is the container's own and
gone with it, or a volume.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HOME = "/home/practice"
_EMPTY = ("/tmp", "/run", "/var/tmp", HOME)  # noqa: S108 -- no file of these is the host's
_FRESH = ("/tmp", "/run", "/dev")  # noqa: S108 -- made in the root anyway, so no links lead through them
_HOST = r"(?!(dev|proc|tmp|run)$)"
_DEVICES = (
    r"(null|zero|full|random|urandom|tty|ptmx|pts|fd|stdin|stdout|stderr|fuse|kfd|dri"
    r"|nvidia.*|infiniband)$"
)


@dataclass(frozen=True)
class Mount:
    """Something of the host that a container has at a path of its own."""

    path: str
    source: str
    read_only: bool = False


def steps(mounts: Iterable[Mount]) -> list[list[Any]]:
    """Return how to build a root with these mounts, for namespaces.enter()."""
    asked = {_real(mount.path): mount for mount in (*_resolver(), *mounts)}
    shown = {"/": _HOST, "/dev": _DEVICES}
    for path in (*_EMPTY, *asked):
        made = (*_FRESH, HOME, *(other for other in asked if other != path))
        if not _below(path, made) and path not in _FRESH and not os.path.lexists(path):
            shown.setdefault(_present(path), "")
    folders = sorted(shown)  # a folder before those in it
    return [
        *(["show", folder, shown[folder]] for folder in folders),
        ["freeze", "/"],
        *(["thaw", folder] for folder in folders),
        *(["folder", path] for path in (*_EMPTY, "/dev/shm")),  # noqa: S108
        ["processes", "/proc"],
        *(["bind", path, asked[path].source, asked[path].read_only] for path in sorted(asked)),
    ]


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _real(path: str) -> str:
    """Follow the links of the host, where it is the host's folder that is seen."""
    path = os.path.normpath(path)
    return path if _below(path, (*_FRESH, HOME)) else os.path.realpath(path)


def _present(path: str) -> str:
    """Return the nearest folder that the host has."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _resolver() -> list[Mount]:
    """Names are resolved as the host does it, also where its file is a link into /run."""
    path = os.path.realpath("/etc/resolv.conf")
    return [Mount(path, path, read_only=True)] if _below(path, _EMPTY) else []
