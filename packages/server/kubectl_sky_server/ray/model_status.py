"""The status of a RayServeGraph: conditions, and a summary of its RayService."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from kubectl_sky.words import age

Json = dict[str, Any]

MAX_MESSAGE = 4000  # characters of a condition's message
_STEPS = ("Downloaded", "Parsed", "Applied")  # in order; Ready follows
TYPES = (*_STEPS, "Ready")


class Condition(Struct, frozen=True):
    """The result of a step. `status` None means Unknown."""

    type: str
    status: bool | None
    reason: str
    message: str = ""


def update(
    status: Json, conditions: Iterable[Condition], generation: int, now: datetime, **fields: object
) -> Json:
    """Return the status with these conditions and fields; other conditions are kept.

    Fields that are None are removed. `lastTransitionTime` changes only with a condition's status.
    """
    current = {item["type"]: item for item in status.get("conditions") or []}
    for condition in conditions:
        current[condition.type] = _condition(current.get(condition.type), condition, now)
    ordered = [current[name] for name in TYPES if name in current]
    failed = first_failure(ordered)
    result = {
        **status,
        **fields,
        "conditions": ordered,
        "observedGeneration": generation,
        "lastError": f"{failed['reason']}: {failed['message']}" if failed else None,
    }
    return {name: value for name, value in result.items() if value is not None}


def first_failure(conditions: Iterable[Json]) -> Json | None:
    failed = (item for item in conditions if item["type"] in _STEPS and item["status"] == "False")
    return next(failed, None)


def _condition(before: Json | None, condition: Condition, now: datetime) -> Json:
    status = "Unknown" if condition.status is None else str(condition.status)
    same = before is not None and before.get("status") == status
    return {
        "type": condition.type,
        "status": status,
        "reason": condition.reason,
        "message": condition.message[:MAX_MESSAGE],
        "lastTransitionTime": before["lastTransitionTime"]
        if before and same
        else age.timestamp(now),
    }


def ready(service: Json) -> Condition:
    """Return the condition Ready of a RayServeGraph by KubeRay's status of its RayService."""
    status = service.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or []}
    condition = conditions.get("Ready")
    if not condition:
        waiting = "the KubeRay operator has not reported on the RayService yet"
        return Condition("Ready", False, "WaitingForKubeRay", waiting)
    value = {"True": True, "False": False}.get(condition.get("status"))
    reason = str(condition.get("reason") or "Unknown")
    return Condition("Ready", value, reason, str(condition.get("message") or ""))


def summary(service: Json) -> Json:
    status = service.get("status") or {}
    active, pending = (status.get(f"{name}ServiceStatus") or {} for name in ("active", "pending"))

    applications = {
        name: str(item.get("status") or "")
        for name, item in sorted((active.get("applicationStatuses") or {}).items())
    }

    conditions = {item.get("type"): item.get("status") for item in status.get("conditions") or []}
    state = "Running" if conditions.get("Ready") == "True" else "NotReady"
    fields = {
        "name": service["metadata"]["name"],
        "state": "Upgrading" if conditions.get("UpgradeInProgress") == "True" else state,
        "serveEndpoints": status.get("numServeEndpoints") or 0,
        "rayCluster": active.get("rayClusterName"),
        "pendingRayCluster": pending.get("rayClusterName"),
        "applications": applications or None,
    }
    return {name: value for name, value in fields.items() if value is not None}
