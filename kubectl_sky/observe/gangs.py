"""Explain why the pods of a Volcano PodGroup do not start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky.workloads.workload import QUEUED

Object = Mapping[str, Any]

_UNSEEN = "no Volcano scheduler has handled it"
_REASONS = {"": "Unseen", "Pending": QUEUED, "Inqueue": "Unschedulable", "Unknown": "Unschedulable"}


@dataclass(frozen=True)
class Waiting:
    """Why a group is pending.

    `phase` is Volcano's; it is empty if no scheduler has handled the group.
    """

    name: str
    queue: str
    phase: str
    message: str

    @property
    def reason(self) -> str:
        """The reason why its nodes are pending, in one word."""
        return _REASONS[self.phase]

    def __str__(self) -> str:
        """Return `PodGroup train-abc is Pending in Volcano's queue gold: …`."""
        if not self.phase:
            return f"PodGroup {self.name}: {_UNSEEN}"
        details = f": {self.message}" if self.message else ""
        return f"PodGroup {self.name} is {self.phase} in Volcano's queue {self.queue}{details}"


def waiting(group: Object) -> Waiting | None:
    """Return why a group is pending; None if it has all its resources."""
    status = group.get("status") or {}
    phase = status.get("phase") or ""
    if phase not in _REASONS:
        return None
    unschedulable = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True"
    ]
    unschedulable.sort(key=lambda condition: condition.get("lastTransitionTime") or "")
    message = (
        (unschedulable[-1].get("message") or unschedulable[-1].get("reason") or "")
        if unschedulable
        else ""
    )
    queue = (group.get("spec") or {}).get("queue") or "default"
    return Waiting(group["metadata"]["name"], queue, phase, str(message).strip())
