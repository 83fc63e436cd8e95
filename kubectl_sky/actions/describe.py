"""What the cluster has of a task, for people to read: its objects and their events."""

from typing import TYPE_CHECKING

import yaml

from kubectl_sky.actions import listing, stop
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds, names

if TYPE_CHECKING:
    from kubectl_sky.words import models


_REDACTED = "REDACTED"
_HIDDEN_METADATA = ("managedFields",)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def as_yaml(session: Session, task: TaskStatus) -> str:
    """Return the workloads of a task and their other objects; secret values are redacted.

    Objects that the user may not list are left out.
    """
    selector = names.selector({names.TASK_ID: task.id})
    uids = set(task.uids.values())
    workloads = [
        item
        for item in listing.list_workloads(session, task.namespace, selector)
        if item["metadata"]["uid"] in uids
    ]
    auxiliary, _ = stop.auxiliary_of_tasks(session, [task])
    items = [*auxiliary[task.namespace, task.id], *workloads]
    return "---\n".join(_text(_shown(item)) for item in items)


def _shown(item: Json) -> Json:
    """Return an object without what hides it from a reader, and without secret values."""
    metadata = {
        key: value for key, value in item["metadata"].items() if key not in _HIDDEN_METADATA
    }
    shown = item | {"metadata": metadata}
    if item["kind"] != kinds.SECRET.kind:
        return shown
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: value for key, value in annotations.items() if key != _LAST_APPLIED
    }
    return shown | {
        field: dict.fromkeys(item[field], _REDACTED)
        for field in ("data", "stringData")
        if item.get(field)
    }


def _text(item: Json) -> str:
    text: str = yaml.dump(item, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text


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
