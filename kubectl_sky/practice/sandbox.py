"""What a container sees as its files, and the steps that get it there without rights.

All of the host can be read, at its usual paths. What can be written to is the container's own and
gone with it, or a volume.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubectl_sky.practice.problems import Json

HOME = "/home/practice"
_EMPTY = ("/tmp", "/run", "/var/tmp", HOME)  # no file of these is the host's
_FRESH = ("/tmp", "/run", "/dev")  # no links of the host lead through them
_HOST = r"(?!(dev|proc|tmp|run)$)"
_DEVICES = (
    r"(null|zero|full|random|urandom|tty|fd|stdin|stdout|stderr|fuse|kfd|dri"
    r"|nvidia.*|infiniband)$"
)
# Where pods cannot have hosts files: the names of other pods, for programs in Python.
_NAMES = """
import os, socket

def find(host):
    with open(os.environ["PRACTICE_HOSTS"]) as lines:
        for address, *names in map(str.split, filter(str.strip, lines)):
            if host in names:
                return address
    return host

def wrap(resolve):
    return lambda host, *rest, **named: resolve(find(host), *rest, **named)

socket.getaddrinfo = wrap(socket.getaddrinfo)
socket.gethostbyname = wrap(socket.gethostbyname)
"""


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
        *(["folder", path] for path in (*_EMPTY, "/dev/shm")),
        ["processes", "/proc"],
        ["terminals", "/dev"],
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
        path = str(Path(path).parent)
    return path


def _resolver() -> list[Mount]:
    """Names are resolved as the host does it, also where its file is a link into /run."""
    path = os.path.realpath("/etc/resolv.conf")
    return [Mount(path, path, read_only=True)] if _below(path, _EMPTY) else []


def without(request: Json, values: dict[str, str], mounts: list[Mount], folder: Path) -> Json:
    """Return a request for a machine where programs see the host's files as they are.

    Paths of mounts are replaced by where they really are, as far as the pod itself says them.
    """
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "sitecustomize.py").write_text(_NAMES)
    mounts = [*mounts, Mount(HOME, str(home))]
    values = {name: _translate(text, mounts) for name, text in values.items()}
    values |= {"PYTHONPATH": f"{home}:{values.get('PYTHONPATH', '')}".rstrip(":")}
    values |= {"PRACTICE_HOSTS": str(folder / "hosts")}
    command = [_translate(text, mounts) for text in request["command"]]
    cwd = str(home) if request["cwd"] == "/" else _translate(request["cwd"], mounts)
    return request | {"command": command, "cwd": cwd, "env": values}


def _translate(text: str, mounts: Iterable[Mount]) -> str:
    for mount in sorted(mounts, key=lambda mount: -len(mount.path)):
        path = re.escape(mount.path.rstrip("/"))
        text = re.sub(rf"(?<![\w./-]){path}(?![\w.-])", mount.source.replace("\\", "\\\\"), text)
    return text
