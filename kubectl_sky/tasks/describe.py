"""Show a task: its objects, its file and its events."""

from collections.abc import Callable
from typing import Annotated

import yaml
from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, stop
from kubectl_sky.words import age, kinds, names
from kubectl_sky.words.core_objects import Event
from kubectl_sky.words.documents import Note

_NEXT_DOCUMENT = "---\n"
_REDACTED = "REDACTED"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def as_yaml(session: Session, task: TaskStatus) -> str:
    """Return the workloads of a task and their other objects; secret values are redacted.

    Objects that the user may not list are left out.
    """
    selector = names.selector({names.TASK_ID: task.id})
    workloads = find.list_workload_manifests(session, task.namespace, selector)
    auxiliary, _ = stop.auxiliary_of_tasks(session, [task], in_full=True)
    others = [item.manifest for item in auxiliary[task.namespace, task.id]]
    items = [*others, *workloads]
    return _NEXT_DOCUMENT.join(
        yaml.dump(_show(item), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
        for item in items
    )


def task_file(session: Session, target: find.Target) -> str | None:
    """Return the YAML that a task, pipeline or group was submitted with; None if it is not kept.

    It has no values of secrets. The task's pods run the scripts of the same ConfigMap.
    """
    tasks = find.tasks_of(target)
    labels = find.with_ids(task.id for task in tasks)
    items = objects.list_all(session, kinds.CONFIG_MAP, target.namespace, label_selector=labels)
    by_name = {item.metadata.name: item.data or {} for item in items}
    own = [names.task_object(names.dns_label(task.name), task.id) for task in tasks]
    kept = [by_name.get(name, {}).get(names.TASK_FILE, "") for name in own]
    if not all(0 < len(text) <= names.MAX_TASK_FILE for text in kept):
        return None
    if isinstance(target, TaskStatus):  # the first task of a pipeline has the header, too
        return kept[0].rpartition(f"\n{_NEXT_DOCUMENT}")[-1]
    return _NEXT_DOCUMENT.join(kept) if len(kept) == target.first_member.stages else None


def _show(item: Json) -> Json:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
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


_MAX_EVENTS = 500


class ClusterEvent(Struct, frozen=True):
    """A Kubernetes event."""

    time: str
    type: str
    reason: str
    object: Annotated[str, Note("its kind and name")]
    message: str
    count: int


def list_events(session: Session, task: TaskStatus) -> list[ClusterEvent]:
    """Return the events of a task's objects newest first."""
    jobs = {node.job for node in task.nodes}
    pods = {node.pod for node in task.nodes if node.pod}

    def belongs(name: str) -> bool:
        # Earlier pods of a node are deleted, and their events remain.
        return name in jobs or name in pods or name.rpartition("-")[0] in jobs

    return _newest(session, task.namespace, belongs)


def list_namespace_events(session: Session) -> list[ClusterEvent]:
    """Return the events of the session's namespace newest first."""
    return _newest(session, session.namespace, lambda name: True)


def _newest(session: Session, namespace: str, selects: Callable[[str], bool]) -> list[ClusterEvent]:
    events = CoreManager(session).list_events(namespace)
    own = [event for event in events if selects(event.involved_object.name)]
    return [_event(event) for event in reversed(own[-_MAX_EVENTS:])]


def _event(event: Event) -> ClusterEvent:
    about = event.involved_object
    times = (event.last_timestamp, event.event_time, event.first_timestamp)
    return ClusterEvent(
        time=next(filter(age.parse, times), None) or "",
        type=event.type,
        reason=event.reason,
        object=f"{about.kind}/{about.name}",
        message=plain(event.message),
        count=event.count or 1,
    )
