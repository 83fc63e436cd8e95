"""Read volumes from a file in SkyPilot's format."""

from typing import BinaryIO

from kubectl_sky.actions import files
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.validate import validate
from kubectl_sky.spec.volume import VolumeFile, volume_of

_UNSUPPORTED_TYPES = {
    "k8s-hostpath": "use host_path in a task to mount a directory of the cluster node",
    "runpod-network-volume": "only RunPod supports it",
}
_KUBERNETES = ("", "k8s", "kubernetes")


def read(path: str, stdin: BinaryIO) -> list[VolumeFile]:
    """Return the volumes of a file. Raises InvalidFiles with all problems."""
    documents = files.documents(path, stdin)
    problems = [problem for document in documents for problem in validate(document, "volume")]
    problems = [problem for problem in problems if problem.severity == "error"]
    problems = problems or [problem for document in documents for problem in _unsupported(document)]
    if problems:
        raise InvalidFiles(problems)
    return [volume_of(document) for document in documents]


def _unsupported(document: Document) -> list[Problem]:
    """Return problems with volumes outside Kubernetes, or that are not PVCs."""
    problems = []
    kind = document.get("type")
    if kind in _UNSUPPORTED_TYPES:
        message = f"volumes of the type {kind} are not made: {_UNSUPPORTED_TYPES[kind]}"
        problems.append(document.problem(("type",), message, "use type: k8s-pvc"))
    infra = document.get("infra") or ""
    if infra.partition("/")[0].lower() not in _KUBERNETES:
        message = f"only Kubernetes volumes are supported, not {infra}"
        problems.append(document.problem(("infra",), message, "use infra: k8s, or remove it"))
    return problems
