"""Real controllers as processes beside the real cluster, for the tests that ask for them."""

import base64
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.golang import Change
from tests.cluster.process import Controller, certificate, configured, defined, running
from tests.cluster.shell import Unavailable, absent, run
from tests.cluster.target import Cluster

_SERVER = "cmd/mpi-operator/app/server.go"
_WITH_ETC = 'mount --bind "$0" /etc && exec "$@"'
_missing = pytest.StashKey[dict[str, str]]()


JOBSET = Controller(
    "jobset",
    "sigs.k8s.io/jobset",
    "config/components/crd/bases",
    fixtures=("jobset", "kueue", "multikueue"),
)
KUEUE = Controller(
    "kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    "config/components/crd/bases",
    source="sigs.k8s.io/kueue",
    flags=("--feature-gates=VisibilityOnDemand=false",),
    variables={"POD_NAMESPACE": "kueue-system"},
    namespace="kueue-system",
    fixtures=("kueue", "multikueue"),
    # It looks for a certificate there and nowhere else: it sees a folder of its own as /etc.
    before=("unshare", "--mount", "sh", "-c", _WITH_ETC, "{folder}/etc"),
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
    fixtures=("mpi", "kueue"),
    # No flag says where it tells how it is, and another worker of the tests may run one, too.
    change=Change("github.com/kubeflow/mpi-operator", _SERVER, "Port = 8080", "Port = 0"),
)
KUBERAY = Controller(
    "kuberay",
    "github.com/ray-project/kuberay/ray-operator",
    "config/crd/bases",
    flags=(
        "--metrics-addr=0",
        "--health-probe-bind-address=0",
        "--enable-leader-election=false",
        "--use-kubernetes-proxy",  # it is no pod, and reaches Ray's dashboard by the API server
    ),
    fixtures=("kuberay",),
)
METRICS = Controller(
    "metrics-adapter",
    "sigs.k8s.io/custom-metrics-apiserver/test-adapter",
    "",
    fixtures=("pod_metrics",),
    # No flag says where it is told metrics, and another worker of the tests may run one, too.
    change=Change(
        "sigs.k8s.io/custom-metrics-apiserver",
        "test-adapter/main.go",
        '":8080"',
        'os.Getenv("METRICS_ADDRESS")',
    ),
)
BUCKETS = Controller("bucket-driver", ".", "", fixtures=("bucket_driver",))
ALL = (JOBSET, KUEUE, APPWRAPPER, MPI, KUBERAY, METRICS, BUCKETS)
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
    items = [item for item in session.items if item.get_closest_marker("cluster")]
    used = {name for item in items for name in getattr(item, "fixturenames", ())}
    for controller in ALL:
        if used.intersection(controller.fixtures):
            with capture.global_and_fixture_disabled():
                try:
                    controller.program()
                except Unavailable as error:
                    missing[controller.name] = str(error)


@pytest.fixture(scope="session")
def jobset(
    real_cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """The folder of the JobSet controller, which runs beside the real cluster."""
    require(pytestconfig, JOBSET)
    folder = certificate(tmp_path_factory.mktemp("jobset"))
    flags = [configured(folder, "config.jobset.x-k8s.io/v1alpha1")]
    with defined(JOBSET, real_cluster), running(JOBSET, real_cluster, folder, flags):
        yield folder


def jobset_webhook(folder: Path, namespace: str) -> dict[str, Any]:
    """Return what lets the JobSet controller change its pods in a namespace, as it is installed."""
    port = json.loads((folder / "config.yaml").read_text())["webhook"]["port"]
    trust = base64.b64encode((folder / "tls.crt").read_bytes()).decode()
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    hook = {
        "name": "mpod.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/mutate--v1-pod", "caBundle": trust},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [pods],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"jobset-{namespace}"},
        "webhooks": [hook],
    }


@pytest.fixture(scope="module")
def mpi(
    real_cluster: Cluster,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The MPI operator, running beside the real cluster."""
    require(pytestconfig, MPI)
    folder = tmp_path_factory.mktemp("mpi")
    flags = [f"-kubeConfig={real_cluster.kubeconfig}", "-lock-namespace=default"]
    with defined(MPI, real_cluster):
        with running(MPI, real_cluster, folder, flags):
            yield
        kubectl = [str(real_cluster.kubectl), f"--kubeconfig={real_cluster.kubeconfig}"]
        held = ("lease", MPI.name, "--ignore-not-found")  # else the next one waits for it
        run([*kubectl, "-n", "default", "delete", *held])


@pytest.fixture(scope="module")
def kueue(
    real_cluster: Cluster,
    jobset: Path,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Kueue and AppWrapper, running beside the real cluster, and gone after the module's tests.

    The kinds of others are there before: Kueue is slow to notice those that come after it.
    No webhook calls them, so nothing of them is in the way of whoever has the cluster, too.
    """
    for controller in (KUEUE, APPWRAPPER):
        require(pytestconfig, controller)
    if os.geteuid():
        absent("no kueue: only root can give it an /etc of its own, with its certificate")
    folder = tmp_path_factory.mktemp("kueue")
    certificates = folder / "etc/kueue/metrics/certs"
    certificates.mkdir(parents=True)
    certificate(certificates)
    version = "config.kueue.x-k8s.io/v1beta2"
    fields = {"clientConnection": {"qps": 300, "burst": 500}}
    frameworks = {"frameworks": _FRAMEWORKS}
    flags = [configured(certificates, version, integrations=frameworks, **fields)]

    with ExitStack() as stack:
        stack.enter_context(defined(MPI, real_cluster))
        stack.enter_context(defined(KUEUE, real_cluster))
        stack.enter_context(defined(APPWRAPPER, real_cluster))
        stack.enter_context(settled(real_cluster, KUEUE, APPWRAPPER))
        stack.enter_context(running(KUEUE, real_cluster, folder, flags))
        stack.enter_context(running(APPWRAPPER, real_cluster, folder, []))
        stack.callback(_empty, real_cluster)  # they hold their objects until these are let go
        yield


def require(config: pytest.Config, controller: Controller) -> None:
    """End the test where the program could not be built."""
    why = config.stash[_missing].get(controller.name)
    if why:
        absent(f"no {controller.name}: {why}")


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
    namespaces = [controller.namespace for controller in controllers]
    for namespace in namespaces:
        run([*kubectl, "create", "namespace", namespace])
    option = f"--from-literal=config.yaml={json.dumps(config)}"
    run([*kubectl, "-n", namespace, "create", "configmap", "appwrapper-operator-config", option])

    try:
        yield
    finally:
        run([*kubectl, "delete", "namespace", *namespaces, "--wait=false"])


def _empty(cluster: Cluster) -> None:
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    for kind in _QUEUEING:
        run([*kubectl, "delete", kind, "--all", "-A", "--timeout=60s"])
