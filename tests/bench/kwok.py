"""Pretend a thousand cluster nodes with GPUs on the real API server, with kwok.

Their pods run as soon as they are there, and end when they are deleted: no kubelet has them.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.words import kinds
from tests.cluster import golang
from tests.cluster.shell import Broken, path, run
from tests.cluster.target import Cluster
from tests.polling import eventually

GPUS = 8  # of each node
_MODULE = Path(__file__).parent.parent / "cluster" / "modules" / "kwok"
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
_CONNECTIONS = 16
_SIZE = {"cpu": "64", "memory": "512Gi", "pods": "200", "nvidia.com/gpu": str(GPUS)}


def program() -> Path:
    """Return kwok, built once."""
    return golang.build("kwok", _MODULE, "sigs.k8s.io/kwok/cmd/kwok")


def node(number: int) -> str:
    """Return the name of a cluster node."""
    return f"kwok-{number:04d}"


@contextmanager
def nodes(cluster: Cluster, session: Session, count: int, folder: Path) -> Iterator[None]:
    """So many cluster nodes, all ready; real ones get no pods meanwhile."""
    stages = golang.sources(_MODULE, "sigs.k8s.io/kwok") / "kustomize" / "stage"
    config = folder / "stages.yaml"
    config.write_text("---\n".join((stages / f"{name}.yaml").read_text() for name in _STAGES))
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    command = [str(program()), kubeconfig, f"--config={config}", "--node-lease-duration-seconds=0"]
    log = folder / "kwok.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--manage-nodes-with-label-selector=type=kwok"],
            env={"PATH": path(), "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        run([str(cluster.kubectl), kubeconfig, "cordon", "-l", "type!=kwok"])
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(lambda number: objects.create(session, _node(number)), range(count)))
        eventually(lambda: _ready(session) == count)
        yield
    finally:
        run([str(cluster.kubectl), kubeconfig, "delete", "node", "-l", "type=kwok"])
        run([str(cluster.kubectl), kubeconfig, "uncordon", "-l", "type!=kwok"])
        ended = process.poll()
        process.terminate()
        process.wait(30)
        if ended is not None:
            raise Broken(f"kwok has ended by itself:\n{log.read_text()[-2000:]}")


def _node(number: int) -> Json:
    name = node(number)
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": _SIZE, "allocatable": _SIZE},
    }


def _ready(session: Session) -> int:
    found = objects.list_all(session, kinds.NODE, label_selector="type=kwok")
    return sum(
        entry["type"] == "Ready" and entry["status"] == "True"
        for item in found
        for entry in item["status"].get("conditions", ())
    )
