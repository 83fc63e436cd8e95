"""Start the programs of a cluster in an order that lets as much as possible go on side by side."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster import components, images
from tests.cluster.api import create, request
from tests.cluster.place import Place
from tests.cluster.shell import Broken, path, run

STORAGE_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "kubernetes.io/host-path",
}


class Starter:
    """Starts one cluster: what can go on side by side does."""

    def __init__(self, place: Place, kube: Path) -> None:
        self._place = place
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._kube = str(kube)

    def start(self) -> None:
        """Start everything. Raises Broken when something ends or takes too long."""
        place = self._place
        place.cgroup.create()

        self._write(place)
        self._run("etcd", [self._kube, *components.etcd(place)])
        self._run("apiserver", [self._kube, *components.api_server(place)])
        self._run("containerd", components.containerd(place))
        self._import(place, images.archives())
        self._wait("the API server", lambda: request(place, "GET", "/readyz") == {})
        self._create_first()
        for command in (components.kubelet, components.controllers, components.scheduler):
            self._run(command.__name__, [self._kube, *command(place)])
        self._run("dns", [self._kube, *components.dns(place)])
        self._run("relay", components.relay(place))
        for part in components.router(place):
            run(part)
        enter = ["ip", "netns", "exec", place.router]
        # Connections come from its router, so that answers pass its rules.
        proxy = [*components.proxy(place), "--masquerade-all"]
        self._run("proxy", [*enter, self._kube, *proxy])
        self._wait_for_node(place)

    def _write(self, place: Place) -> None:
        """Write the files that programs read, and the key of the accounts."""
        for name, text in components.files(place).items():
            file = place.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.write_text(text)

        key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"]
        run([*key, "-out", place.folder / "accounts.key"])

    def _run(self, name: str, command: Sequence[str]) -> None:
        """Start a program in the control group, with its output in a file."""
        enter = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(self._place.cgroup.members)]
        with (self._place.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*enter, *command],
                cwd=self._place.folder,
                env={**os.environ, "PATH": path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _import(self, place: Place, archives: Sequence[Path]) -> None:
        """Give the images of archives to the container runtime of a place."""
        socket = place.folder / "containerd.sock"
        self._wait("containerd", lambda: bool(run(["ctr", "--address", socket, "version"])))
        images.bring(socket, archives)

    def _create_first(self) -> None:
        """Create what each cluster has; an API server that is ready may refuse for a moment."""
        for plural, item in (*components.pretence(), ("storageclasses", STORAGE_CLASS)):
            where = f"/apis/{item['apiVersion']}/{plural}"
            self._wait(f"{item['kind']}s", partial(create, self._place, where, item))

    def _wait_for_node(self, place: Place) -> None:
        """Wait until a cluster node is ready, and has what it pretends to have."""
        path = f"/api/v1/nodes/{place.node}"

        def ready() -> bool:
            conditions = request(self._place, "GET", path)["status"]["conditions"]
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

        def pretending() -> bool:
            """Patch the node; the API server heeds what it is to write into it a little later."""
            body = {"status": dict.fromkeys(("capacity", "allocatable"), components.GPUS)}
            node = request(self._place, "PATCH", f"{path}/status", body)
            return bool(node["status"]["allocatable"]["cpu"] == components.CPUS)

        self._wait(f"the node {place.node}", ready)
        self._wait(f"what the node {place.node} pretends to have", pretending)

    def _wait(self, what: str, ready: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not _true(ready):
            for name, process in self._processes.items():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Broken(f"{what} did not become ready; {self._log(name)}")
            time.sleep(0.05)

    def _log(self, name: str) -> str:
        lines = (self._place.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n  ".join((f"{name}.log ends with:", *lines[-8:]))


def _true(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except (OSError, KeyError, Broken):
        return False
