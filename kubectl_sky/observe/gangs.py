"""What Volcano says of a PodGroup whose pods do not start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky.workloads.workload import QUEUED

Object = Mapping[str, Any]

_UNSEEN = "no scheduler of Volcano has looked at it"
_REASONS = {"": "Unseen", "Pending": QUEUED, "Inqueue": "Unschedulable", "Unknown": "Unschedulable"}


@dataclass(frozen=True)
class Waiting:
    """Why a group waits: `phase` is Volcano's, and empty where nobody has looked at the group."""

    name: str
    queue: str
    phase: str
    message: str

    @property
    def reason(self) -> str:
        """Why its nodes wait, in one word."""
        return _REASONS[self.phase]

    def __str__(self) -> str:
        """`PodGroup train-abc is Pending in Volcano's queue gold: …`."""
        if not self.phase:
            return f"PodGroup {self.name}: {_UNSEEN}"
        why = f": {self.message}" if self.message else ""
        return f"PodGroup {self.name} is {self.phase} in Volcano's queue {self.queue}{why}"


def waiting(group: Object) -> Waiting | None:
    """Return why a group waits; None where it has what it needs."""
    status = group.get("status") or {}
    phase = status.get("phase") or ""
    if phase not in _REASONS:
        return None
    found = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True"
    ]
    found.sort(key=lambda condition: condition.get("lastTransitionTime") or "")
    message = (found[-1].get("message") or found[-1].get("reason") or "") if found else ""
    queue = (group.get("spec") or {}).get("queue") or "default"
    return Waiting(group["metadata"]["name"], queue, phase, str(message).strip())
