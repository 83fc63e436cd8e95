"""The settings for all tasks, and the logged-in user: two files in one folder."""

import getpass
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.words import private
from kubectl_sky.words.private import Folder

DEFAULT_IMAGE = "python:3.13-slim"
# SkyPilot's images on Kubernetes, of its catalog v8: skypilot:custom-{cpu,gpu}-ubuntu-2204-v1.
_SKYPILOT = "us-docker.pkg.dev/sky-dev-465/skypilotk8s"
SKYPILOT_IMAGE = f"{_SKYPILOT}/skypilot:202607220236"
SKYPILOT_GPU_IMAGE = f"{_SKYPILOT}/skypilot-gpu:202607220236"
MISSING_PROGRAM_ADVICE = (  # for the default image
    "install it in setup, set image_id, or run `kubectl sky config set defaults skypilot` to use"
    " SkyPilot's image"
)
DEFAULT_FETCHER = "docker.io/rclone/rclone:1.68.2"  # the version that SkyPilot uses
_LOGIN_BYTES = 10_000


class Settings(Struct, frozen=True):
    """Choices for what a task does not set: the fields of schemas/settings.json."""

    image: str | None = None
    defaults: str | None = None  # "skypilot" uses SkyPilot's default sizes and image
    backend: str | None = None
    queue: str | None = None
    # A SkyPilot priority or range such as `500..1000`, and a PriorityClass.
    priority_classes: Mapping[str, str] = {}
    # Directories of cluster nodes that tasks may mount, with those below.
    host_paths: Sequence[str] = ()
    # "image" runs tasks without a workdir in that of the image.
    start_directory: str = "sky_workdir"
    volume_group: int | bool = 1000  # the group that may write to volumes; False sets none
    # How ports of tasks are exposed, and the annotations of their Services.
    ports: Mapping[str, Any] = {}
    # Of pods, as a metrics adapter names it: what services with target_qps_per_replica scale by.
    qps_metric: str = "http_requests_per_second"
    ingress: Mapping[str, str] = {}  # `class` and `domain` of services with TLS
    stores: Mapping[str, Mapping[str, Any]] = {}  # the access to each bucket store
    default_store: str | None = None  # of buckets that are given by name only
    bucket_mode: str = "mount"  # "copy" or "sync" does so with buckets that would be mounted
    fetch_image: str = DEFAULT_FETCHER
    fetch_program: str = "rclone"  # of the `fetch_image`
    max_files: int = 200_000
    max_gib: int = 4
    requests_per_second: float | None = None  # to the API server
    # Contexts of Kueue's worker clusters, named as the MultiKueueClusters.
    multikueue: Sequence[str] = ()
    refuse: Sequence[str] = ()
    # Volcano queues, and the policies of fair share.
    fair_share: Mapping[str, Mapping[str, Any]] = {}
    ray_graphs: Mapping[str, Any] = {}  # `trusted_hosts` of the ray controller
    notify: str | None = None  # URL that the tasks controller tells of finished tasks
    history: int = 0  # how many finished tasks it keeps per namespace
    prometheus: str | None = None  # URL that the server asks what tasks have used
    # Seconds without output of running tasks of several nodes, which `list` names.
    silent_after: int = 600
    # Seconds after which pods on a cluster node that does not respond are replaced; 0 is never.
    node_lost_after: int = 300
    # The limits `for` and `idle` of development pods, in seconds.
    dev: Mapping[str, int | None] = {}
    gang: str | bool = "auto"  # False is how YAML reads `off`
    slurm: Mapping[str, Any] = {}  # what options of batch scripts become

    @property
    def silence_limit(self) -> timedelta:
        """How long a node may print nothing until it is told at the latest; 0 is for ever."""
        return timedelta(seconds=self.silent_after)

    @property
    def lost_after(self) -> timedelta | None:
        """How long a cluster node may not respond until its pods are replaced; None is for ever."""
        return timedelta(seconds=self.node_lost_after) if self.node_lost_after else None


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the settings folder.

    It is `$KUBECTL_SKY_CONFIG_HOME`, or by default a folder in the XDG config home.
    """
    return _home("CONFIG", "~/.config", environ)


def _home(kind: str, default: str, environ: Mapping[str, str]) -> Path:
    """Return this program's folder of a kind; relative XDG paths are ignored.

    The XDG specification requires that. A relative path could lead to files that another user
    prepared in the working directory.
    """
    override = environ.get(f"KUBECTL_SKY_{kind}_HOME")
    if override:
        return Path(override)
    try:
        xdg = Path(environ.get(f"XDG_{kind}_HOME") or "").expanduser()
        return (xdg if xdg.is_absolute() else Path(default).expanduser()) / "kubectl-sky"
    except RuntimeError:  # a user without a home directory, in a container for example
        return Path("/nonexistent/kubectl-sky")


def settings_file(environ: Mapping[str, str] = os.environ) -> Path:
    return folder(environ) / "settings.yaml"


def read_login(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name given to `auth login`, or None.

    Raises UserError for an unsafe or invalid file.
    """
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
    """Save the name for all later commands of this operating system user."""
    home = folder(environ)
    try:
        Folder(home).write("login", f"{name}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write {home / 'login'}: {error.strerror}") from error


def log_out(environ: Mapping[str, str] = os.environ) -> str | None:
    """Remove the saved name and return it, or None if no user was logged in."""
    name = read_login(environ)
    (folder(environ) / "login").unlink(missing_ok=True)
    return name


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for state other than settings.

    It is `$KUBECTL_SKY_STATE_HOME`, or by default a folder in the XDG state home.
    """
    return _home("STATE", "~/.local/state", environ)


def system_user() -> str:
    """Return the operating system user name, or `nobody` if there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no passwd entry
        return "nobody"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for caches.

    It is `$KUBECTL_SKY_CACHE_HOME`, or by default a folder in the XDG cache home.
    """
    return _home("CACHE", "~/.cache", environ)


def unsafe_cache(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a warning if the cache is disabled: another user controls its folder."""
    with suppress(OSError):
        path = cache_folder(environ)
        try:
            Folder(path).check()
        except private.Unsafe as error:
            yield (
                f"warning: nothing is cached: {error.path}: {error.reason};"
                " remove it, or set KUBECTL_SKY_CACHE_HOME to a folder of yours"
            )
