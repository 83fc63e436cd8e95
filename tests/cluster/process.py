"""What a controller needs to run as a process beside a cluster."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster import cache, golang, programs
from tests.cluster.shell import Broken, path, run
from tests.cluster.target import Cluster


@dataclass(frozen=True)
class Controller:
    """A controller: its Go package, and where its module has the definitions of its kinds."""

    name: str  # of the folder with its go.mod
    package: str
    definitions: str
    source: str = ""  # the module, where the package is not at its root
    flags: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""  # that it wants
    change: golang.Change | None = None
    before: tuple[str, ...] = ()  # a command that runs the program, which follows
    fixtures: tuple[str, ...] = ()  # that run it

    @property
    def module(self) -> Path:
        """Where its recipe is."""
        return programs.MODULES / self.name

    def program(self) -> Path:
        """Return the program, built once."""
        return golang.build(self.name, self.module, self.package, change=self.change)

    def kinds(self) -> Path:
        """Return the file or folder of its definitions."""
        return golang.sources(self.module, self.source or self.package) / self.definitions


def certificate(folder: Path) -> Path:
    """Make one in a folder, for whoever does not look at it closely; return the folder."""
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    run([*key, *names, "-keyout", folder / "tls.key", "-out", folder / "tls.crt"])
    return folder


def configured(folder: Path, version: str, **more: object) -> str:
    """Return the flag of a configuration by which nothing but the API server knows the program."""
    config = {
        "apiVersion": version,
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        # nobody calls its webhooks: what we send says everything that they would add
        "webhook": {"host": "127.0.0.1", "port": free_port(), "certDir": str(folder)},
        **more,
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    return f"--config={folder / 'config.yaml'}"


def _established(kubectl: Sequence[str], files: Sequence[str]) -> None:
    """Wait for kinds; kubectl gives up on those so new that they have no conditions yet."""
    deadline = time.monotonic() + 60
    while True:
        try:
            run([*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *files])
        except Broken:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


@contextmanager
def defined(controller: Controller, cluster: Cluster) -> Iterator[None]:
    """Its kinds, which go again unless they were there before."""
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    files = ["-f", str(controller.kinds())]
    leaving = "{.metadata.deletionTimestamp}{.items[*].metadata.deletionTimestamp}"
    if run([*kubectl, "get", *files, "--ignore-not-found", "-o", f"jsonpath={leaving}"]):
        run([*kubectl, "wait", "--for=delete", "--timeout=120s", *files])  # another test's
    before = run([*kubectl, "get", *files, "--ignore-not-found", "-o", "name"])
    run([*kubectl, "apply", "--server-side", "--force-conflicts", *files])
    _established(kubectl, files)
    try:
        yield
    finally:
        if not before:
            run([*kubectl, "delete", "--wait=false", *files])


@contextmanager
def running(
    controller: Controller, cluster: Cluster, folder: Path, flags: Sequence[str]
) -> Iterator[None]:
    """Its process, which writes its log into the folder and may not end by itself."""
    log_file = folder / f"{controller.name}.log"
    environment = {"HOME": str(folder), "USER": "root", "PATH": path()}
    before = (part.format(folder=folder) for part in controller.before)

    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*before, str(controller.program()), *flags, *controller.flags],
            env={**environment, "KUBECONFIG": str(cluster.kubeconfig), **controller.variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    try:
        yield
    finally:
        ended = process.poll()
        process.terminate()
        process.wait(60)
        if ended is not None:
            raise Broken(f"{controller.name} has ended by itself:\n{log_file.read_text()[-2000:]}")


@contextmanager
def free(port: int, controller: Controller) -> Iterator[None]:
    """A port that a controller takes, and no other one: one at a time of this machine has it."""
    with cache.lock(f"port-{port}"), socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            pytest.skip(f"no {controller.name}: something else has its port {port}")
        yield


def free_port() -> int:
    """Return a port of this machine that nothing has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
