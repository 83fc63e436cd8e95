"""Fields of resources that describe a VM, as far as they apply to a pod."""

import re
from dataclasses import dataclass

from kubectl_sky.spec import quantity
from kubectl_sky.spec.accelerator import candidates
from kubectl_sky.spec.document import Data

DEFAULT_DISK = "256Gi"  # SkyPilot's default; treated as not set
MIN_LINGER = 60  # seconds; a client that follows a task must see it finish
_DEFAULT_IDLE = 5  # minutes, SkyPilot's default
_MAX_LINGER = 2**31 - 1  # Kubernetes counts seconds in 32 bits

_SHAPE = re.compile(r"([0-9.]{1,9})CPU--([0-9.]{1,9})GB(?:--([A-Za-z0-9-]{1,40}:[0-9]{1,4}))?")


@dataclass(frozen=True)
class Shape:
    """A pod's size in SkyPilot's notation: `4CPU--16GB--H100:8`."""

    cpus: str
    memory: str
    accelerators: str | None


def shape(instance_type: Data) -> Shape | None:
    """Return the pod's size in an instance type; None for a cloud's instance type."""
    match = _SHAPE.fullmatch(instance_type) if isinstance(instance_type, str) else None
    if not match:
        return None
    try:
        quantity.cpus(match[1])
        quantity.memory(match[2])
        candidates(match[3] or 1)
    except ValueError:
        return None
    return Shape(match[1], match[2], match[3])


def disk(size: str | int | None, old: str | int | None) -> str | None:
    """Return the storage request of a node; None if not set or SkyPilot's default."""
    value = old if size is None else size
    request = None if value is None else quantity.storage(value)
    return None if request == DEFAULT_DISK else request


def down(autostop: Data) -> bool:
    """Report whether to delete a finished task; autostop needs `down` for it."""
    return isinstance(autostop, dict) and autostop.get("down") is True


def ttl_seconds(autostop: Data) -> int | None:
    """Return the seconds until a finished task is deleted; None keeps it."""
    if not isinstance(autostop, dict) or not down(autostop):
        return None
    minutes = autostop.get("idle_minutes")
    idle = _DEFAULT_IDLE if minutes is None else int(str(minutes))
    return min(max(idle * 60, MIN_LINGER), _MAX_LINGER)
