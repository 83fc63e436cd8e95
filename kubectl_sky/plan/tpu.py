"""TPUs of GKE: map their names to the node labels for accelerator and topology."""

import re

from kubectl_sky.plan.accelerators import Rule, Term
from kubectl_sky.spec.document import FieldError

RESOURCE = "google.com/tpu"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"

# SkyPilot's name of each generation, and GKE's. GKE's names are accepted with a count.
_SLICES = {
    "tpu-v4": "tpu-v4-podslice",
    "tpu-v5p": "tpu-v5p-slice",
    "tpu-v5litepod": "tpu-v5-lite-podslice",
    "tpu-v5lite": "tpu-v5-lite-device",
    "tpu-v6e": "tpu-v6e-slice",
}
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4"}
_CUBES = {4: "2x2x1"}
_TOPOLOGIES = {"tpu-v4-podslice": _CUBES, "tpu-v5p-slice": _CUBES}


def is_tpu(name: str) -> bool:
    """Return whether an accelerator is a TPU."""
    return name.lower().startswith("tpu-")


def request(name: str, count: int) -> tuple[int, Term]:
    """Return the number of chips to request for a node, and the node labels.

    Raises FieldError for a TPU slice that is not a single GKE cluster node.
    """
    text = name.lower()
    match = re.fullmatch(r"(tpu-v[0-9a-z]+)-([0-9]{1,4})", text)
    kind, chips = (_SLICES.get(match[1], ""), int(match[2])) if match else (text, count)
    if kind not in _SLICES.values():
        names = ", ".join(f"{generation}-N" for generation in _SLICES)
        raise FieldError(
            ("resources", "accelerators", name),
            "GKE has no TPU of this name for pods",
            f"the names are {names}",
        )
    topologies = _TOPOLOGIES.get(kind, _FLAT)
    if chips not in topologies:
        raise FieldError(
            ("resources", "accelerators", name),
            f"no cluster node has {chips} chips; slices of several cluster nodes are not supported",
            f"request {' or '.join(map(str, topologies))} chips per node",
        )
    return chips, (Rule(ACCELERATOR, (kind,)), Rule(TOPOLOGY, (topologies[chips],)))
