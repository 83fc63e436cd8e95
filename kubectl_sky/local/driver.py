"""The settings and the states of a local cluster."""

import re
from enum import StrEnum
from typing import Self

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
