"""TPU slices of GKE: their chips, cluster nodes and topologies.

Source: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
"""

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan.accelerators import TPU_LABEL, RequiredLabel, Term, is_tpu
from kubectl_sky.spec.document import FieldError

if TYPE_CHECKING:
    from kubectl_sky.spec.task import Task

BACKEND = "jobset"  # which keeps the nodes of a task on one node pool, which is one slice
NODE_POOL = "cloud.google.com/gke-nodepool"  # the label of the cluster nodes of one pool
_TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-topology"

# SkyPilot's name of each generation, and GKE's. GKE's names are accepted with a count of chips.
_KINDS = {
    "tpu-v4": "tpu-v4-podslice",
    "tpu-v5p": "tpu-v5p-slice",
    "tpu-v5litepod": "tpu-v5-lite-podslice",
    "tpu-v5lite": "tpu-v5-lite-device",
    "tpu-v6e": "tpu-v6e-slice",
}
_TWO_CORES = ("tpu-v4", "tpu-v5p")  # the number in these names is of cores, two of each chip

# The topologies by their number of chips: of one cluster node, and of several with four chips each.
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4"}
_FLAT_OF_SEVERAL = {16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBE = {4: "2x2x1"}
_CUBE_OF_SEVERAL = {8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8"}
_CHIPS = 4
_TOPOLOGIES = {
    "tpu-v4-podslice": (_CUBE, _CUBE_OF_SEVERAL),
    "tpu-v5p-slice": (_CUBE, _CUBE_OF_SEVERAL),
    "tpu-v5-lite-podslice": (_FLAT, _FLAT_OF_SEVERAL),
    "tpu-v5-lite-device": (_FLAT, {}),
    "tpu-v6e-slice": (_FLAT, _FLAT_OF_SEVERAL),
}


class Slice(Struct, frozen=True):
    """A slice: its cluster nodes, the chips of each, and the labels of each."""

    hosts: int
    chips: int
    term: Term


def find_slice(name: str, count: int) -> Slice:
    """Return the slice that a task asks for. Raises FieldError if GKE has none such."""
    text = name.lower()
    match = re.fullmatch(r"(tpu-v[0-9a-z]+)-([0-9]{1,4})", text)
    kind = _KINDS.get(match[1], "") if match else text
    chips = int(match[2]) if match else count
    if match and match[1] in _TWO_CORES:
        chips //= 2

    field = ("resources", "accelerators", name)
    if kind not in _TOPOLOGIES:
        names = ", ".join(f"{generation}-N" for generation in _KINDS)
        message = "GKE has no TPU of this name for pods"
        raise FieldError(field, message, f"the names are {names}")

    single, several = _TOPOLOGIES[kind]
    topology = single.get(chips) or several.get(chips)
    if not topology:
        sizes = ", ".join(map(str, (single | several)))
        message = f"GKE has no slice with {chips} chips of this kind"
        raise FieldError(field, message, f"slices have {sizes} chips")

    hosts = 1 if chips in single else chips // _CHIPS
    labels = (RequiredLabel(TPU_LABEL, (kind,)), RequiredLabel(_TOPOLOGY_LABEL, (topology,)))
    return Slice(hosts, chips // hosts, labels)


def _hosts(task: "Task") -> set[int]:
    """Return how many cluster nodes the accelerators of a task need; 1 for all but slices."""
    hosts = set()
    for candidate in task.candidates:
        accelerator = candidate.accelerator
        if accelerator and accelerator.name and is_tpu(accelerator.name):
            hosts.add(find_slice(accelerator.name, accelerator.count).hosts)
        else:
            hosts.add(1)
    return hosts


def check_nodes(task: "Task") -> None:
    """Raise FieldError if a task cannot run on the cluster nodes of its slice."""
    hosts = _hosts(task)
    most = max(hosts)
    if most == 1:
        return
    if len(hosts) > 1:
        message = "a slice of several cluster nodes is no alternative to one cluster node"
        raise FieldError(("resources",), message, "write a file for each")
    if task.num_nodes not in (1, most):
        message = f"the slice has {most} cluster nodes, and each is a node of the task"
        raise FieldError(("num_nodes",), message, "remove it; a task has one slice")
    if task.backend not in (None, "auto", BACKEND):
        message = f"a slice of {most} cluster nodes is a JobSet, unlike backend {task.backend}"
        hint = f"use --backend {BACKEND}, or a slice of one cluster node"
        raise FieldError(("resources", "accelerators"), message, hint)
    if task.array:
        message = f"an index of an array is one pod, and the slice has {most} cluster nodes"
        raise FieldError(("config", "kubectl_sky", "array"), message, "submit each as a task")


def spans_nodes(task: "Task") -> bool:
    """Return whether the slice of a task of a valid document is several cluster nodes."""
    return max(_hosts(task)) > 1


def spread(task: "Task") -> "Task":
    """Return a task of a valid document with a node for each cluster node of its slice."""
    hosts = max(_hosts(task))
    return replace(task, num_nodes=hosts, backend=BACKEND) if hosts > 1 else task
