"""Real controllers as processes beside the real cluster, for the tests that ask for them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.process import Controller, certificate, configured, defined, free, running
from tests.cluster.shell import Unavailable, run
from tests.cluster.target import Cluster

_MPI_PORT = 8080
_missing = pytest.StashKey[dict[str, str]]()


JOBSET = Controller(
    "jobset", "sigs.k8s.io/jobset", "config/components/crd/bases", fixtures=("jobset", "kueue")
)
KUEUE = Controller(
    "kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    "config/components/crd/bases",
    source="sigs.k8s.io/kueue",
    flags=("--feature-gates=VisibilityOnDemand=false",),
    variables={"POD_NAMESPACE": "kueue-system"},
    namespace="kueue-system",
    fixtures=("kueue",),
)
APPWRAPPER = Controller(
    "appwrapper",
    "github.com/project-codeflare/appwrapper/cmd",
    "config/crd/bases",
    source="github.com/project-codeflare/appwrapper",
    variables={"NAMESPACE": "appwrapper-system"},
    namespace="appwrapper-system",
    fixtures=("kueue", "asking"),
)
MPI = Controller(
    "mpi-operator",
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "manifests/base/kubeflow.org_mpijobs.yaml",
    source="github.com/kubeflow/mpi-operator",
    fixtures=("mpi", "mpi_once", "kueue"),
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
        if used.intersection(each.fixtures):
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
    require(pytestconfig, JOBSET)
    folder = certificate(tmp_path_factory.mktemp("jobset"))
    flags = [configured(folder, "config.jobset.x-k8s.io/v1alpha1")]
    with defined(JOBSET, real_cluster), running(JOBSET, real_cluster, folder, flags):
        yield


@pytest.fixture(scope="module")
def mpi(
    real_cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The MPI operator, running beside the real cluster."""
    require(pytestconfig, MPI)
    with _operating(real_cluster, tmp_path_factory.mktemp("mpi")):
        yield


@pytest.fixture
def mpi_once(
    real_cluster: Cluster, kueue: None, pytestconfig: pytest.Config, tmp_path: Path
) -> Iterator[None]:
    """The same for one test, beside Kueue."""
    require(pytestconfig, MPI)
    with _operating(real_cluster, tmp_path):
        yield


@pytest.fixture(scope="module")
def kueue(
    real_cluster: Cluster,
    jobset: None,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Kueue and AppWrapper, running beside the real cluster, and gone after the module's tests.

    The kinds of others are there before: Kueue is slow to notice those that come after it.
    No webhook calls them, so nothing of them is in the way of whoever has the cluster, too.
    """
    for each in (KUEUE, APPWRAPPER):
        require(pytestconfig, each)
    folder = certificate(tmp_path_factory.mktemp("kueue"))
    version = "config.kueue.x-k8s.io/v1beta2"
    flags = [configured(folder, version, integrations={"frameworks": _FRAMEWORKS})]
    with ExitStack() as stack:
        stack.enter_context(_certified(folder))
        stack.enter_context(defined(MPI, real_cluster))
        stack.enter_context(defined(KUEUE, real_cluster))
        stack.enter_context(defined(APPWRAPPER, real_cluster))
        stack.enter_context(settled(real_cluster, KUEUE, APPWRAPPER))
        stack.enter_context(running(KUEUE, real_cluster, folder, flags))
        stack.enter_context(running(APPWRAPPER, real_cluster, folder, []))
        stack.callback(_empty, real_cluster)  # they hold their objects until these are let go
        yield


@contextmanager
def _operating(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The MPI operator: one at a time on a machine, as all of them take the same port."""
    flags = [f"-kubeConfig={cluster.kubeconfig}", "-lock-namespace=default"]
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    lease = ["-n", "default", "delete", "lease", MPI.name, "--ignore-not-found"]
    with free(_MPI_PORT, MPI), defined(MPI, cluster):
        with running(MPI, cluster, folder, flags):
            yield
        run([*kubectl, *lease])  # else the next one waits for it


def require(config: pytest.Config, controller: Controller) -> None:
    """Skip the test where the program could not be built."""
    why = config.stash[_missing].get(controller.name)
    if why:
        pytest.skip(f"no {controller.name}: {why}")


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
def settled(cluster: Cluster, *controllers: Controller, **says: object) -> Iterator[None]:
    """The namespaces that they want, and what AppWrapper, the last one, reads as it starts."""
    config = {
        "webhooksEnabled": False,
        "controllerManager": {
            "health": {"bindAddress": "0"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": False,
        },
        "appwrapper": {
            "userRBACAdmissionCheck": bool(says),
            "autopilot": {"injectAntiAffinities": False, "monitorNodes": False},
        },
        **says,
    }
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    namespaces = [each.namespace for each in controllers]
    for namespace in namespaces:
        run([*kubectl, "create", "namespace", namespace])
    said = f"--from-literal=config.yaml={json.dumps(config)}"
    run([*kubectl, "-n", namespace, "create", "configmap", "appwrapper-operator-config", said])
    try:
        yield
    finally:
        run([*kubectl, "delete", "namespace", *namespaces, "--wait=false"])


def _empty(cluster: Cluster) -> None:
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    for kind in _QUEUEING:
        run([*kubectl, "delete", kind, "--all", "-A", "--timeout=60s"])
