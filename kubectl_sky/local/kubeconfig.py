"""Kubeconfig files: the cluster's own, and its context in the user's."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.local.driver import CLUSTER
from kubectl_sky.words import private

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_EMPTY = {"apiVersion": "v1", "kind": "Config"}
_LOCK_TIMEOUT_SECONDS = 5.0  # seconds to wait while another program writes the same file


def parse(text: str) -> dict[str, Any]:
    """Parse a kubeconfig printed by a program. Raises SkyError."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        config = None
    if not isinstance(config, dict) or not config.get("current-context"):
        raise SkyError("the program that created the cluster returned no kubeconfig")
    return config


def read(path: Path) -> dict[str, Any]:
    """Read a kubeconfig written by a program. Raises SkyError."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SkyError(f"cannot read {path}: {error.strerror}") from None


def sky_local_only(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the current context of a kubeconfig, renamed to `sky-local`."""
    context = _entry(config, "contexts", config["current-context"])
    cluster = _entry(config, "clusters", context["cluster"])
    user = _entry(config, "users", context["user"])
    renamed = {**context, "cluster": CLUSTER, "user": CLUSTER}
    return {
        **_EMPTY,
        "clusters": [{"name": CLUSTER, "cluster": cluster}],
        "users": [{"name": CLUSTER, "user": user}],
        "contexts": [{"name": CLUSTER, "context": renamed}],
        "current-context": CLUSTER,
    }


def server(config: Mapping[str, Any]) -> str:
    address: str = _entry(config, "clusters", CLUSTER)["server"]
    return address


def write(path: Path, config: Mapping[str, Any]) -> None:
    private.replace(path, yaml.safe_dump(dict(config), sort_keys=False).encode())


def user_path(environ: Mapping[str, str] = os.environ) -> Path:
    paths = [path for path in (environ.get("KUBECONFIG") or "").split(os.pathsep) if path]
    return Path(paths[0] if paths else "~/.kube/config").expanduser().absolute()


def use(path: Path, config: Mapping[str, Any]) -> str | None:
    """Set the context as current in the user's kubeconfig; return the previous one."""
    with _editing(path) as user_config:
        before: str | None = user_config.get("current-context")
        _remove_context(user_config)
        for section in _SECTIONS:
            user_config[section].extend(config[section])
        user_config["current-context"] = CLUSTER
    return before


def forget(path: Path, before: str | None) -> None:
    """Remove the context from the user's kubeconfig; restore the previous one."""
    if not path.exists():
        return
    with _editing(path) as user_config:
        _remove_context(user_config)
        if user_config.get("current-context") == CLUSTER:
            context_names = [item.get("name") for item in user_config["contexts"]]
            user_config["current-context"] = before if before in context_names else ""


def _entry(config: Mapping[str, Any], section: str, name: str) -> dict[str, Any]:
    for item in config.get(section) or []:
        if item["name"] == name:
            value: dict[str, Any] = item[_SECTIONS[section]]
            return value
    raise SkyError(f'the kubeconfig of the cluster lacks "{name}" among its {section}')


def _remove_context(config: dict[str, Any]) -> None:
    for section in _SECTIONS:
        remaining = [item for item in config.get(section) or [] if item.get("name") != CLUSTER]
        config[section] = remaining


@contextmanager
def _editing(path: Path) -> Iterator[dict[str, Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock")
    _acquire(lock)
    try:
        config = _read_user(path)
        yield config
        # Write to the target of a symbolic link and keep the link.
        write(path.resolve(), config)
    finally:
        lock.unlink(missing_ok=True)


def _acquire(lock: Path) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
    while True:
        try:
            lock.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            if time.monotonic() > deadline:
                raise SkyError(
                    f"another program is changing {lock.with_suffix('')}",
                    f"if none is running, remove {lock}",
                ) from None
            time.sleep(0.1)
        else:
            return


def _read_user(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")) or dict(_EMPTY)
    except FileNotFoundError:
        return dict(_EMPTY)
    except (yaml.YAMLError, UnicodeDecodeError):
        config = None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if not isinstance(config, dict) or not all(
        isinstance(section, list) and all(isinstance(item, dict) for item in section)
        for section in (config.get(name) or [] for name in _SECTIONS)
    ):
        raise UserError(f"{path} is not a kubeconfig", "it was not changed")
    return config
