"""What a way to a cluster on this machine can do, and what is asked of it."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self

from kubectl_sky.errors import UserError

CLUSTER = "sky-local"  # what the cluster, its context and its containers are called

_GPUS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,61})(?::([1-9][0-9]{0,3}))?")


class State(StrEnum):
    """How a cluster is."""

    RUNNING = "running"
    STOPPED = "stopped"
    ABSENT = "absent"
    UNKNOWN = "unknown"  # the program that would know does not say


@dataclass(frozen=True)
class Gpus:
    """Pretend GPUs of each node."""

    name: str
    count: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `A100:8`, or `A100` for one. Raises UserError."""
        found = _GPUS.fullmatch(text)
        if not found:
            raise UserError(f"--gpus {text}: not a kind and a count of GPUs", "write A100:8")
        return cls(found[1], int(found[2] or 1))

    def __str__(self) -> str:
        """`A100:8`."""
        return f"{self.name}:{self.count}"


@dataclass(frozen=True)
class Wanted:
    """How a cluster is to be. Without a port it takes one that is free."""

    nodes: int = 1
    gpus: Gpus | None = None
    port: int | None = None


class Driver(Protocol):
    """One way. Whatever goes wrong is a SkyError."""

    def state(self) -> State:
        """Say how the cluster is. Raises SkyError where that cannot be told."""

    def start(self, wanted: Wanted) -> None:
        """Make the cluster, or start the one that was stopped, and return when it is ready."""

    def stop(self) -> None:
        """Stop it; what is in it stays."""

    def delete(self) -> None:
        """Remove it with all that is in it."""

    def kubeconfig(self) -> dict[str, Any]:
        """Return the kubeconfig whose current context is the cluster's."""

    def details(self) -> dict[str, str | int]:
        """Return what else there is to say, for `status`."""
