"""Real controllers as processes beside the real cluster, for the tests that ask for them."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster import golang
from tests.cluster.shell import Broken, Unavailable, path, run
from tests.cluster.target import Cluster

_MODULES = Path(__file__).parent / "modules"
_missing = pytest.StashKey[dict[str, str]]()


@dataclass(frozen=True)
class Controller:
    """A controller: its Go package, and where its module has the definitions of its kinds."""

    name: str  # of the folder with its go.mod
    package: str
    definitions: str
    source: str = ""  # the module, where the package is not at its root
    flags: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    fixture: str = ""  # that runs it

    @property
    def module(self) -> Path:
        """Where its recipe is."""
        return _MODULES / self.name

    def program(self) -> Path:
        """Return the program, built once."""
        return golang.build(self.name, self.module, self.package)

    def kinds(self) -> Path:
        """Return the file or folder of its definitions."""
        return golang.sources(self.module, self.source or self.package) / self.definitions


JOBSET = Controller("jobset", "sigs.k8s.io/jobset", "config/components/crd/bases", fixture="jobset")
KUEUE = Controller(
    "kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    "config/components/crd/bases",
    source="sigs.k8s.io/kueue",
    flags=("--feature-gates=VisibilityOnDemand=false",),
    variables={"POD_NAMESPACE": "kueue-system"},
    fixture="kueue",
)
APPWRAPPER = Controller(
    "appwrapper",
    "github.com/project-codeflare/appwrapper/cmd",
    "config/crd/bases",
    source="github.com/project-codeflare/appwrapper",
    variables={"NAMESPACE": "appwrapper-system"},
    fixture="kueue",
)
MPI = Controller(
    "mpi-operator",
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "manifests/base/kubeflow.org_mpijobs.yaml",
    source="github.com/kubeflow/mpi-operator",
    fixture="mpi",
)
_ALL = (JOBSET, KUEUE, APPWRAPPER, MPI)
# Where Kueue looks for a certificate, and nowhere else.
_CERTIFICATES = Path("/etc/kueue/metrics/certs")
_FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "workload.codeflare.dev/appwrapper",
)
_QUEUEING = (
    "appwrappers",
    "workloads",
    "localqueues",
    "clusterqueues",
    "resourceflavors",
    "workloadpriorityclasses",
)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what takes minutes before the first test, whose time is limited."""
    missing = session.config.stash.setdefault(_missing, {})
    if session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    used = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for each in _ALL:
        if each.fixture in used:
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
    _require(pytestconfig, JOBSET)
    folder = _certificate(tmp_path_factory.mktemp("jobset"))
    flags = [_configured(folder, "config.jobset.x-k8s.io/v1alpha1")]
    with _defined(JOBSET, real_cluster), _running(JOBSET, real_cluster, folder, flags):
        yield


@pytest.fixture(scope="session")
def mpi(
    real_cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The MPI operator, running beside the real cluster."""
    _require(pytestconfig, MPI)
    folder = tmp_path_factory.mktemp("mpi")
    flags = [f"-kubeConfig={real_cluster.kubeconfig}", "-lock-namespace=default"]
    with _defined(MPI, real_cluster), _running(MPI, real_cluster, folder, flags):
        yield
    kubectl = [str(real_cluster.kubectl), f"--kubeconfig={real_cluster.kubeconfig}"]
    run([*kubectl, "-n", "default", "delete", "lease", MPI.name])  # else the next one waits for it


@pytest.fixture(scope="module")
def kueue(
    real_cluster: Cluster,
    jobset: None,
    mpi: None,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Kueue and AppWrapper, running beside the real cluster, and gone after the module's tests.

    The other controllers are there before: Kueue is slow to notice kinds that come after it.
    No webhook calls them, so nothing of them is in the way of whoever has the cluster, too.
    """
    for each in (KUEUE, APPWRAPPER):
        _require(pytestconfig, each)
    folder = _certificate(tmp_path_factory.mktemp("kueue"))
    version = "config.kueue.x-k8s.io/v1beta2"
    flags = [_configured(folder, version, integrations={"frameworks": _FRAMEWORKS})]
    with ExitStack() as stack:
        stack.enter_context(_certified(folder))
        stack.enter_context(_defined(KUEUE, real_cluster))
        stack.enter_context(_defined(APPWRAPPER, real_cluster))
        stack.enter_context(_settled(real_cluster))
        stack.enter_context(_running(KUEUE, real_cluster, folder, flags))
        stack.enter_context(_running(APPWRAPPER, real_cluster, folder, []))
        stack.callback(_empty, real_cluster)  # they hold their objects until these are let go
        yield


def _require(config: pytest.Config, controller: Controller) -> None:
    why = config.stash[_missing].get(controller.name)
    if why:
        pytest.skip(f"no {controller.name}: {why}")


def _certificate(folder: Path) -> Path:
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    run([*key, "-keyout", folder / "tls.key", "-out", folder / "tls.crt"])
    return folder


def _configured(folder: Path, version: str, **more: object) -> str:
    """Return the flag of a configuration by which nothing but the API server knows the program."""
    config = {
        "apiVersion": version,
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        # nobody calls its webhooks: what we send says everything that they would add
        "webhook": {"host": "127.0.0.1", "port": _free_port(), "certDir": str(folder)},
        **more,
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    return f"--config={folder / 'config.yaml'}"


@contextmanager
def _certified(folder: Path) -> Iterator[None]:
    """The certificate where Kueue looks for it; folders that were made for it go again."""
    made = [path for path in (_CERTIFICATES, *_CERTIFICATES.parents) if not path.exists()]
    try:
        _CERTIFICATES.mkdir(parents=True, exist_ok=True)
        if made:
            for name in ("tls.key", "tls.crt"):
                shutil.copy(folder / name, _CERTIFICATES)
    except PermissionError:
        pytest.skip(f"no kueue: it reads {_CERTIFICATES}, which only root can write")
    try:
        yield
    finally:
        if made:
            shutil.rmtree(made[-1])


@contextmanager
def _settled(cluster: Cluster) -> Iterator[None]:
    """The namespaces that they want, and what AppWrapper reads as it starts."""
    config = {
        "webhooksEnabled": False,
        "controllerManager": {
            "health": {"bindAddress": "0"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": False,
        },
        "appwrapper": {
            "userRBACAdmissionCheck": False,
            "autopilot": {"injectAntiAffinities": False, "monitorNodes": False},
        },
    }
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    for each in (KUEUE, APPWRAPPER):
        (namespace,) = each.variables.values()
        run([*kubectl, "create", "namespace", namespace])
    said = f"--from-literal=config.yaml={json.dumps(config)}"
    run([*kubectl, "-n", namespace, "create", "configmap", "appwrapper-operator-config", said])
    try:
        yield
    finally:
        for each in (KUEUE, APPWRAPPER):
            (namespace,) = each.variables.values()
            run([*kubectl, "delete", "namespace", namespace, "--wait=false"])


def _empty(cluster: Cluster) -> None:
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    for kind in _QUEUEING:
        run([*kubectl, "delete", kind, "--all", "-A", "--timeout=60s"])


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
def _defined(controller: Controller, cluster: Cluster) -> Iterator[None]:
    """Its kinds, which go again unless they were there before."""
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    files = ["-f", str(controller.kinds())]
    before = run([*kubectl, "get", *files, "--ignore-not-found", "-o", "name"])
    run([*kubectl, "apply", "--server-side", "--force-conflicts", *files])
    _established(kubectl, files)
    try:
        yield
    finally:
        if not before:
            run([*kubectl, "delete", "--wait=false", *files])


@contextmanager
def _running(
    controller: Controller, cluster: Cluster, folder: Path, flags: Sequence[str]
) -> Iterator[None]:
    with (folder / f"{controller.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(controller.program()), *flags, *controller.flags],
            env={"KUBECONFIG": str(cluster.kubeconfig), "PATH": path(), **controller.variables},
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
