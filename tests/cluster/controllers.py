"""Real controllers as processes beside the real cluster, for the tests that ask for them."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import golang
from tests.cluster.shell import Unavailable, path, run
from tests.cluster.target import Cluster

_MODULES = Path(__file__).parent / "modules"
_missing = pytest.StashKey[dict[str, str]]()


@dataclass(frozen=True)
class Controller:
    """A controller: its Go package, and where its module has the definitions of its kinds."""

    name: str  # of the folder with its go.mod, and of the fixture
    package: str
    definitions: str

    @property
    def module(self) -> Path:
        """Where its recipe is."""
        return _MODULES / self.name

    def program(self) -> Path:
        """Return the program, built once."""
        return golang.build(self.name, self.module, self.package)

    def kinds(self) -> Path:
        """Return the folder of its definitions."""
        return golang.sources(self.module, self.package) / self.definitions


JOBSET = Controller("jobset", "sigs.k8s.io/jobset", "config/components/crd/bases")
_ALL = (JOBSET,)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what takes minutes before the first test, whose time is limited."""
    missing = session.config.stash.setdefault(_missing, {})
    if session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for each in _ALL:
        if any(each.name in getattr(item, "fixturenames", ()) for item in session.items):
            with capture.global_and_fixture_disabled():
                try:
                    each.program()
                except Unavailable as error:
                    missing[each.name] = str(error)


@pytest.fixture(scope="session")
def jobset(
    real_cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The JobSet controller, running beside the real cluster."""
    why = pytestconfig.stash[_missing].get(JOBSET.name)
    if why:
        pytest.skip(f"no JobSet: {why}")
    folder = tmp_path_factory.mktemp("jobset")
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    run([*key, "-keyout", folder / "tls.key", "-out", folder / "tls.crt"])
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        # nobody calls its webhooks: what we send says everything that they would add
        "webhook": {"host": "127.0.0.1", "port": _free_port(), "certDir": str(folder)},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    with _defined(JOBSET, real_cluster), _running(JOBSET, real_cluster, folder):
        yield


@contextmanager
def _defined(controller: Controller, cluster: Cluster) -> Iterator[None]:
    """Its kinds, which go again unless they were there before."""
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    files = ["-f", str(controller.kinds())]
    before = run([*kubectl, "get", *files, "--ignore-not-found", "-o", "name"])
    run([*kubectl, "apply", "--server-side", "--force-conflicts", *files])
    run([*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *files])
    try:
        yield
    finally:
        if not before:
            run([*kubectl, "delete", "--wait=false", *files])


@contextmanager
def _running(controller: Controller, cluster: Cluster, folder: Path) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(controller.program()), f"--config={folder / 'config.yaml'}"],
            env={"KUBECONFIG": str(cluster.kubeconfig), "PATH": path()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
