"""The Kubernetes events of a task: of its workloads and its pods."""

from typing import TYPE_CHECKING

from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.words import models

_MAX_EVENTS = 500


def list_events(session: Session, task: TaskStatus) -> list["models.ClusterEvent"]:
    """Return the events of a task's objects as JSON values, newest first."""
    jobs = {node.job for node in task.nodes}
    pods = {node.pod for node in task.nodes if node.pod}

    def belongs(name: str) -> bool:
        # Earlier pods of a node are deleted, and their events remain.
        return name in jobs or name in pods or name.rpartition("-")[0] in jobs

    events = CoreManager(session).list_events(task.namespace)
    own = [event for event in events if belongs(event.get("involvedObject", {}).get("name", ""))]
    return [_as_json(event) for event in reversed(own[-_MAX_EVENTS:])]


def _as_json(event: Json) -> "models.ClusterEvent":
    about = event["involvedObject"]
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return {
        "time": next(filter(None, times), ""),
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "object": f"{about.get('kind', '')}/{about.get('name', '')}",
        "message": event.get("message", ""),
        "count": event.get("count") or 1,
    }
