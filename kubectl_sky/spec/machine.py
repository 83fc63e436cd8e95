"""Fields of resources that speak of a machine, as far as they say something about a pod."""

import re
from dataclasses import dataclass

from kubectl_sky.spec import quantity
from kubectl_sky.spec.accelerator import candidates
from kubectl_sky.spec.document import Data

DEFAULT_DISK = "256Gi"  # SkyPilot's, which it takes for silence
MIN_LINGER = 60  # seconds; who follows a task has to see its end
_DEFAULT_IDLE = 5  # minutes, SkyPilot's
_MAX_LINGER = 2**31 - 1  # Kubernetes counts seconds in 32 bits

_SHAPE = re.compile(r"([0-9.]{1,9})CPU--([0-9.]{1,9})GB(?:--([A-Za-z0-9-]{1,40}:[0-9]{1,4}))?")


@dataclass(frozen=True)
class Shape:
    """What SkyPilot's name of a pod's size says: `4CPU--16GB--H100:8`."""

    cpus: str
    memory: str
    accelerators: str | None


def shape(instance_type: Data) -> Shape | None:
    """Return what an instance type says of a pod; None for a provider's machine."""
    found = _SHAPE.fullmatch(instance_type) if isinstance(instance_type, str) else None
    if not found:
        return None
    try:
        quantity.cpus(found[1])
        quantity.memory(found[2])
        candidates(found[3] or 1)
    except ValueError:
        return None
    return Shape(found[1], found[2], found[3])


def disk(size: str | int | None, old: str | int | None) -> str | None:
    """Return the room that a node asks for on its disk; SkyPilot's default asks for nothing."""
    written = old if size is None else size
    room = None if written is None else quantity.storage(written)
    return None if room == DEFAULT_DISK else room


def down(autostop: Data) -> bool:
    """Say whether what has ended is to be deleted; stopping and keeping means nothing here."""
    return isinstance(autostop, dict) and autostop.get("down") is True


def linger(autostop: Data) -> int | None:
    """Return after how many seconds what has ended is deleted; None keeps it."""
    if not isinstance(autostop, dict) or not down(autostop):
        return None
    minutes = autostop.get("idle_minutes")
    idle = _DEFAULT_IDLE if minutes is None else int(str(minutes))
    return min(max(idle * 60, MIN_LINGER), _MAX_LINGER)
