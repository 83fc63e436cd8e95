"""A single-node Kubernetes of this machine's own programs: no Docker, but Linux and root."""

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import cache, golang, images, mounts, packages
from tests.cluster.api import request
from tests.cluster.place import FOLDER, Place
from tests.cluster.shell import Unavailable, path, run
from tests.cluster.starter import Starter

_MODULE = Path(__file__).parent / "modules" / "kube"
_VERSION = "v1.36.3"  # as in its go.mod
_FLAGS = f"-X k8s.io/component-base/version.gitVersion={_VERSION}"


def kube() -> Path:
    """Return the program that is all parts of a cluster, built when the cache has it not."""
    return golang.build("kube", _MODULE, ".", _FLAGS)


def kubectl() -> Path:
    """Return the kubectl of the same version."""
    return golang.build("kubectl", _MODULE, "k8s.io/kubernetes/cmd/kubectl", _FLAGS)


def sources(name: str) -> Path:
    """Return the folder of one of the Go modules that they are made of."""
    return golang.sources(_MODULE, name)


def prepare() -> None:
    """Install and build all that `up` needs. Raises Unavailable."""
    if platform.system() != "Linux" or os.geteuid():
        raise Unavailable("building a cluster here needs Linux and root")
    packages.require("containerd", "ctr", "ip", "iptables", "openssl", "runc", "socat")
    kube()
    kubectl()
    images.archives()


def up() -> Place:
    """Start a cluster and return when its node is ready. Raises Unavailable."""
    prepare()
    with cache.lock("clusters"):
        sweep()
        place = Place.claim()
        cache.own(place.folder / "owner")
    try:
        Starter(place, kube()).start()
    except BaseException:
        down(place)
        raise
    return place


def sweep() -> None:
    """Stop the clusters whose owner was killed before it could stop them itself."""
    for folder in FOLDER.glob("*"):
        place = Place(int(folder.name))
        if not cache.owned(folder / "owner"):
            cache.say(f"removing what an earlier run left in {folder}")
            down(place)


def down(place: Place) -> None:
    """Stop all that runs and remove all that was made, whatever state it is in."""
    volumes = _volumes(place)
    place.cgroup.kill()
    for address in _shims(place):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
    for link in Path("/var/log/containers").glob("*"):
        if link.is_symlink() and link.readlink().is_relative_to(place.folder):
            link.unlink()
    for volume in volumes:
        mounts.remove(volume)
    place.cgroup.remove()
    for device in (f"{place.router}r", place.bridge):  # a namespace may outlive its last process
        subprocess.run(["ip", "link", "delete", device], env={"PATH": path()}, capture_output=True)
    for namespace in _namespaces(place):
        run(["ip", "netns", "delete", namespace])
    mounts.remove(place.folder)


def _shims(place: Place) -> Iterator[Path]:
    """The files with the sockets of containers, of one cluster node or of several."""
    sockets = "containerd/state/io.containerd.*/k8s.io/*/address"
    yield from place.folder.glob(sockets)
    yield from place.folder.glob(f"*/{sockets}")


def _namespaces(place: Place) -> list[str]:
    """The network namespaces that exist of a cluster: one, and one of each of several nodes."""
    names = [path.name for path in Path("/run/netns").glob(f"{place.router}*")]
    return [name for name in names if name.partition("-")[0] == place.router]


def _volumes(place: Place) -> list[Path]:
    """The folders that were provisioned as volumes, if the API server still answers."""
    try:
        volumes = request(place, "GET", "/api/v1/persistentvolumes")["items"]
    except OSError:
        return []
    paths = (volume["spec"].get("hostPath", {}).get("path", "") for volume in volumes)
    return [Path(path) for path in paths if path.startswith("/tmp/hostpath_pv/")]
