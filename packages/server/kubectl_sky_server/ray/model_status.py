"""The status of a RayServeGraph: conditions, and a summary of its RayService."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from kubectl_sky.words import age
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.objects import Conditions, Fields, find_true

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


class Application(Fields, frozen=True, kw_only=True):
    """An application of Ray Serve."""

    status: str = ""


class ClusterStatus(Fields, frozen=True, kw_only=True):
    """A Ray cluster of a RayService, and what Ray Serve runs on it."""

    application_statuses: dict[str, Application] = field(default_factory=dict)
    ray_cluster_name: str | None = None


class RayServiceStatus(Conditions, frozen=True, kw_only=True):
    """What KubeRay says of a RayService."""

    active_service_status: ClusterStatus = ClusterStatus()
    num_serve_endpoints: int = 0
    pending_service_status: ClusterStatus = ClusterStatus()


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


def read(service: Json) -> RayServiceStatus:
    """Return the status of a RayService; empty before KubeRay has set one."""
    return convert(service.get("status") or {}, RayServiceStatus)


def ready(service: RayServiceStatus) -> Condition:
    """Return the condition Ready of a RayServeGraph by KubeRay's status of its RayService."""
    condition = next((item for item in service.conditions if item.type == "Ready"), None)
    if not condition:
        waiting = "the KubeRay operator has not reported on the RayService yet"
        return Condition("Ready", False, "WaitingForKubeRay", waiting)
    value = {"True": True, "False": False}.get(condition.status)
    return Condition("Ready", value, condition.reason or "Unknown", condition.message)


def summary(name: str, service: RayServiceStatus) -> Json:
    active = service.active_service_status
    applications = {key: item.status for key, item in sorted(active.application_statuses.items())}
    state = "Running" if find_true(service.conditions, "Ready") else "NotReady"
    if find_true(service.conditions, "UpgradeInProgress"):
        state = "Upgrading"
    fields = {
        "name": name,
        "state": state,
        "serveEndpoints": service.num_serve_endpoints,
        "rayCluster": active.ray_cluster_name,
        "pendingRayCluster": service.pending_service_status.ray_cluster_name,
        "applications": applications or None,
    }
    return {name: value for name, value in fields.items() if value is not None}
