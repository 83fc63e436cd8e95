"""What the user decided once for all tasks, and who is logged in: two files in one folder."""

import getpass
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kubectl_sky import private
from kubectl_sky.errors import UserError
from kubectl_sky.private import Folder

DEFAULT_IMAGE = "python:3.13-slim"
DEFAULT_FETCHER = "docker.io/rclone/rclone:1.68.2"  # the version that SkyPilot uses
_LOGIN_BYTES = 10_000


@dataclass(frozen=True)
class Settings:
    """Choices that apply where a task is silent; each is a field of schemas/settings.json.

    `defaults` is "skypilot" for SkyPilot's own sizes where a task names none. `priority_classes`
    is SkyPilot's priority, or a range of them such as `500..1000`, to the name of a PriorityClass.
    `host_paths` are the directories of the cluster's nodes that tasks may mount, with all below.
    `single_node_volumes` is what becomes of several nodes with a volume for one machine: "together"
    on one, or "refuse". `volume_group` is the group that may write to volumes; False gives none.
    `stores` is how each store of buckets is reached, `default_store` is where buckets are of which
    only the name is known, `bucket_mode` "copy" copies those too that are to be mounted, by the
    `fetch_program` of the `fetch_image`. `ports` is how the ports of tasks are reached, and the
    annotations of the Services that lead to them. `code_volume` is the volume that keeps the files
    that are too large for ConfigMaps.
    """

    image: str = DEFAULT_IMAGE
    defaults: str | None = None
    backend: str | None = None
    queue: str | None = None
    priority_classes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    host_paths: Sequence[str] = ()
    single_node_volumes: str = "together"
    volume_group: int | bool = 1000
    ports: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    barrier_timeout: int | None = None
    stores: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    default_store: str | None = None
    bucket_mode: str = "mount"
    fetch_image: str = DEFAULT_FETCHER
    fetch_program: str = "rclone"
    code_volume: str = ""
    max_files: int = 200_000
    max_gib: int = 4
    refuse: Sequence[str] = ()


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files are: `$KUBECTL_SKY_CONFIG_HOME`, else a folder in the XDG config home."""
    return _home("CONFIG", "~/.config", environ)


def _home(kind: str, default: str, environ: Mapping[str, str]) -> Path:
    """Return our own folder of a kind; as XDG wants it, a relative folder of XDG's is ignored.

    A folder that somebody else prepared and the user works in would be such a relative one.
    """
    own = environ.get(f"KUBECTL_SKY_{kind}_HOME")
    if own:
        return Path(own)
    xdg = Path(environ.get(f"XDG_{kind}_HOME") or "").expanduser()
    return (xdg if xdg.is_absolute() else Path(default).expanduser()) / "kubectl-sky"


def settings_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the settings, which need not exist."""
    return folder(environ) / "settings.yaml"


def logged_in(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name given to `auth login`, or None. Raises UserError for an unsafe file."""
    path = folder(environ) / "login"
    try:
        return private.read(path, _LOGIN_BYTES).decode().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", f"remove {path}, then log in again") from error
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8", f"remove {path}, then log in again") from None


def log_in(name: str, environ: Mapping[str, str] = os.environ) -> None:
    """Remember the name for every later command of this operating-system user."""
    home = folder(environ)
    try:
        Folder(home).write("login", f"{name}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write {home / 'login'}: {error.strerror}") from error


def log_out(environ: Mapping[str, str] = os.environ) -> str | None:
    """Forget the name, and return it; None when nobody was logged in."""
    name = logged_in(environ)
    (folder(environ) / "login").unlink(missing_ok=True)
    return name


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where state is kept that is no setting: `$KUBECTL_SKY_STATE_HOME`, else XDG's state home."""
    return _home("STATE", "~/.local/state", environ)


def system_user() -> str:
    """Return the operating system's name for the user; `nobody` where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in its passwd
        return "nobody"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where is kept what can be made again: `$KUBECTL_SKY_CACHE_HOME`, else XDG's cache home."""
    return _home("CACHE", "~/.cache", environ)


def unsafe_cache(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a note if the cache is not used because another user controls its folder."""
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home directory
        path = cache_folder(environ)
        try:
            Folder(path).check()
        except private.Unsafe as error:
            yield (
                f"warning: nothing is cached: {error.path}: {error.reason};"
                " remove it, or set KUBECTL_SKY_CACHE_HOME to a folder of yours"
            )
