"""kwok beside a real cluster: cluster nodes that run nothing, for what schedulers decide."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import golang, programs
from tests.cluster.shell import Unavailable, absent
from tests.cluster.target import Cluster

LABELS = {"type": "kwok"}  # of the cluster nodes that it manages
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")


@contextmanager
def running(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Run it: cluster nodes with its label are ready, and pods there run until they are deleted."""
    try:
        program = programs.path("kwok")
        sources = golang.sources(programs.MODULES / "kwok", "sigs.k8s.io/kwok")
    except Unavailable as error:
        absent(f"no kwok: {error}")

    texts = [(sources / "kustomize/stage" / f"{name}.yaml").read_text() for name in _STAGES]
    stages = folder / "stages.yaml"
    stages.write_text("---\n".join(texts))
    config = shutil.copy(cluster.kubeconfig, folder / "kwok-kubeconfig")
    flags = ["--node-lease-duration-seconds=0", "--manage-nodes-with-label-selector=type=kwok"]
    process = subprocess.Popen(
        [str(program), f"--kubeconfig={config}", f"--config={stages}", *flags],
        env={"HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert process.poll() is None, "kwok ended by itself"
    finally:
        process.terminate()
        process.wait(60)
