"""A cluster from kind, where a Docker engine answers."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cluster import cache, golang
from tests.cluster.shell import Broken, Command, find, run

_MODULE = Path(__file__).parent / "modules" / "kind"
_NAME = "kubectl-sky-tests-"
_FOLDER = cache.ROOT / "kind-clusters"
_GPUS = {"nvidia.com/gpu": "8"}


def usable() -> bool:
    """Say whether a Docker engine answers."""
    docker = find("docker")
    if not docker:
        return False
    try:
        done = subprocess.run([docker, "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def prepare() -> Path:
    """Return the program `kind`, the installed one or one built now."""
    program = find("kind")
    return Path(program) if program else golang.build("kind", _MODULE, "sigs.k8s.io/kind")


@contextmanager
def cluster(kubectl: Path) -> Iterator[Path]:
    """Have a cluster and yield its kubeconfig."""
    kind = prepare()
    name = f"{_NAME}{os.getpid()}"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    kubeconfig = _FOLDER / name
    with cache.lock("kind"):
        _sweep(kind)
        cache.own(_owner(name))
    try:
        create: Command = [kind, "create", "cluster", "--name", name, "--kubeconfig", kubeconfig]
        run([*create, "--wait", "180s"])
        _pretend_gpus(kubectl, kubeconfig)
        yield kubeconfig
    finally:
        _delete(kind, name)


def _pretend_gpus(kubectl: Path, kubeconfig: Path) -> None:
    status = json.dumps({"status": {"capacity": _GPUS, "allocatable": _GPUS}})
    command: Command = [kubectl, "--kubeconfig", kubeconfig]
    node = run([*command, "get", "nodes", "-o", "name"]).split()[0]
    run([*command, "patch", node, "--subresource=status", "--type=merge", "-p", status])


def _sweep(kind: Path) -> None:
    """Delete the clusters of runs that were killed before they could."""
    for name in run([kind, "get", "clusters"]).split():
        if name.startswith(_NAME) and not cache.owned(_owner(name)):
            _delete(kind, name)


def _delete(kind: Path, name: str) -> None:
    with suppress(Broken):  # it may have gone
        run([kind, "delete", "cluster", "--name", name, "--kubeconfig", _FOLDER / name])
    (_FOLDER / name).unlink(missing_ok=True)
    _owner(name).unlink(missing_ok=True)


def _owner(name: str) -> Path:
    return _FOLDER / f"{name}.owner"
