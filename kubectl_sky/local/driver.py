"""The interface of local cluster drivers, and the settings of a cluster."""

import re
from enum import StrEnum
from typing import Any, Protocol, Self

from msgspec import Struct

from kubectl_sky.errors import UserError

CLUSTER = "sky-local"  # name of the cluster, its context and its containers

_GPUS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,61})(?::([1-9][0-9]{0,3}))?")


class ClusterState(StrEnum):
    """The state of a local cluster."""

    RUNNING = "running"
    STOPPED = "stopped"
    ABSENT = "absent"
    UNKNOWN = "unknown"  # the driver's program does not report it


class Gpus(Struct, frozen=True):
    """Simulated GPUs of each node."""

    name: str
    count: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse `A100:8`, or `A100` for one GPU. Raises UserError."""
        match = _GPUS.fullmatch(text)
        if not match:
            raise UserError(f"--gpus {text}: not a kind and a count of GPUs", "write A100:8")
        return cls(match[1], int(match[2] or 1))

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


class ClusterSpec(Struct, frozen=True):
    """Requested settings of a cluster. Without a port, any free one is used."""

    nodes: int = 1
    gpus: Gpus | None = None
    port: int | None = None


class Driver(Protocol):
    """A driver of local clusters. All its errors are SkyErrors."""

    def state(self) -> ClusterState:
        """Return the cluster's state. Raises SkyError if it cannot be determined."""

    def start(self, spec: ClusterSpec) -> None:
        """Create the cluster, or start the stopped one, and wait until it is ready."""

    def stop(self) -> None:
        """Stop the cluster and keep its contents."""

    def delete(self) -> None:
        """Delete the cluster with all its contents."""

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig whose current context is this cluster."""

    def details(self) -> dict[str, str | int]:
        """Return further details for `status`."""
