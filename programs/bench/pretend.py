"""Pretend a thousand cluster nodes with GPUs, with kwok, and create the Jobs of many tasks.

Pods run as soon as they are scheduled, and end when they are deleted: no kubelet has them.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from programs.bench.harness import Bench
from tests.cluster import golang, programs

Json = dict[str, Any]

NODES = 1_000
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
_SIZE = {"cpu": "64", "memory": "512Gi", "pods": "200", "nvidia.com/gpu": "8"}


def _each(make: Callable[[int], object], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(make, numbers))


@contextmanager
def cluster_nodes(bench: Bench, session: Session) -> Iterator[None]:
    """Pretend the cluster nodes, all ready; real ones get no pods meanwhile."""
    stages = golang.sources(programs.MODULES / "kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
    texts = [(stages / f"{name}.yaml").read_text() for name in _STAGES]
    bench.write("stages.yaml", "---\n".join(texts))
    # Commands change the namespace of their kubeconfig's context.
    kubeconfig = shutil.copy(bench.environment["KUBECONFIG"], bench.folder / "kwok-kubeconfig")
    kwok = subprocess.Popen(
        [
            str(programs.path("kwok")),
            f"--kubeconfig={kubeconfig}",
            f"--config={bench.folder / 'stages.yaml'}",
            "--node-lease-duration-seconds=0",
            "--manage-nodes-with-label-selector=type=kwok",
        ],
        env={**bench.environment, "HOME": str(bench.folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        bench.run("kubectl cordon -l type!=kwok")
        _each(lambda number: objects.create(session, _node(number)), range(NODES))
        bench.run("kubectl wait node -l type=kwok --for=condition=Ready --timeout=5m")
        yield
        assert kwok.poll() is None, "kwok ended by itself"
    finally:
        bench.run("kubectl delete node -l type=kwok")
        bench.run("kubectl uncordon -l type!=kwok")
        kwok.terminate()
        kwok.wait(30)


def _node(number: int) -> Json:
    name = f"kwok-{number:04d}"
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


def submit(session: Session, job: Json, namespace: str, count: int) -> None:
    """Create Jobs like a rendered one, with the ids b0000000 and on."""
    text = json.dumps(job)
    task = job["metadata"]["labels"]["task-id"]

    def create(number: int) -> None:
        copy = json.loads(text.replace(task, f"b{number:07d}"))
        copy["metadata"]["namespace"] = namespace
        objects.create(session, copy)

    _each(create, range(count))
