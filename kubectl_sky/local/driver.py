"""The settings and the states of a local cluster."""

import re
import subprocess
from enum import StrEnum
from typing import Self

from msgspec import Struct

from kubectl_sky.errors import UserError

CLUSTER = "sky-local"  # name of the cluster, its context and its containers

_GPUS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,61})(?::([1-9][0-9]{0,3}))?")


_SMI_LINE = re.compile(r"^(GPU-[0-9A-Fa-f-]{1,60}), *(\S.*)$", re.MULTILINE)
_OF_HOST = " of this machine"
_SMI_SECONDS = 30


class ClusterState(StrEnum):
    """The state of a local cluster."""

    RUNNING = "running"
    STOPPED = "stopped"
    ABSENT = "absent"
    UNKNOWN = "unknown"  # the driver's program does not report it


class Gpus(Struct, frozen=True):
    """Simulated GPUs of each node; those of this machine have UUIDs."""

    name: str
    count: int
    uuids: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse `A100:8`, or `A100` for one GPU; find those of this machine for `host`.

        Raises UserError.
        """
        if text == "host" or text.endswith(_OF_HOST):
            return cls.of_host()
        match = _GPUS.fullmatch(text)
        if not match:
            raise UserError(f"--gpus {text}: not a kind and a count of GPUs", "write A100:8")
        return cls(match[1], int(match[2] or 1))

    @classmethod
    def of_host(cls) -> Self:
        """Return the GPUs of this machine: of several models, the most frequent one."""
        command = ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SMI_SECONDS, check=False)
            output = done.stdout.decode(errors="replace")
            problem = "it shows no GPU"
        except subprocess.TimeoutExpired:
            output = ""
            problem = f"it did not respond within {_SMI_SECONDS} s"
        except OSError as error:
            output = ""
            problem = error.strerror or str(error)

        models: dict[str, list[str]] = {}
        for uuid, name in _SMI_LINE.findall(output):
            models.setdefault(re.sub(r"[^A-Za-z0-9.-]+", "-", name.strip())[:63], []).append(uuid)
        if not models:
            hint = "install the NVIDIA driver, or simulate GPUs: --gpus A100:8"
            raise UserError(f"--gpus host: no GPU found by nvidia-smi: {problem.lower()}", hint)

        name, uuids = max(models.items(), key=lambda item: len(item[1]))
        return cls(name, len(uuids), tuple(uuids))

    def __str__(self) -> str:
        return f"{self.name}:{self.count}{_OF_HOST if self.uuids else ''}"


class ClusterSpec(Struct, frozen=True):
    """Requested settings of a cluster. Without a port, any free one is used."""

    nodes: int = 1
    gpus: Gpus | None = None
    port: int | None = None
