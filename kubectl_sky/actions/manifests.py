"""The objects of a task as the cluster has them, for people to read."""

import yaml

from kubectl_sky.actions import listing, stop
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds, names

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
