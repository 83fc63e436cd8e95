"""CSI drivers of clouds' buckets, by one whose buckets are folders of this machine."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.controllers import BUCKETS, require
from tests.cluster.process import running
from tests.cluster.shell import run
from tests.cluster.target import Cluster
from tests.polling import eventually

_NODE = "localhost"

Start = Callable[[str], Path]


@pytest.fixture
def bucket_driver(
    real_cluster: Cluster, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Start]:
    """Start the driver of a name; return the folder that has a folder for each of its buckets."""
    require(pytestconfig, BUCKETS)
    if real_cluster.driver != "machine":
        pytest.skip(
            "only the kubelet of the cluster that is built here sees this machine's folders"
        )

    with ExitStack() as stack:

        def start(name: str) -> Path:
            folder = tmp_path_factory.mktemp("buckets")
            stack.enter_context(_registered(real_cluster, name, folder))
            return folder

        yield start


@contextmanager
def _registered(cluster: Cluster, name: str, folder: Path) -> Iterator[None]:
    """Run a driver that the kubelet and the API server know."""
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]
    kubelet = cluster.kubeconfig.parent / "kubelet"
    spec = {
        "attachRequired": False,
        "podInfoOnMount": True,
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    }
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}}
    file = folder.with_suffix(".json")
    file.write_text(json.dumps({**driver, "spec": spec}))

    def registered() -> bool:
        names = run([*kubectl, "get", "csinode", _NODE, "-o", "jsonpath={.spec.drivers[*].name}"])
        return name in names.split()

    flags = [f"--kubelet={kubelet}", f"--driver={name}", f"--node={_NODE}", f"--buckets={folder}"]
    run([*kubectl, "apply", "-f", file])
    try:
        with running(BUCKETS, cluster, folder.parent, flags):
            eventually(registered)
            yield
    finally:
        run([*kubectl, "delete", "-f", file])
