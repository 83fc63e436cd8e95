"""The last states of finished tasks, which outlive their objects: JSON in a ConfigMap.

The fields of TaskRecord are its format. Others may write records, so each is read alone: one that
this version cannot read is counted.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.encoding import decode
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound
from kubectl_sky.observe import ownership
from kubectl_sky.observe import record as records
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.record import TaskRecord
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import ConfigMap

_MAX_BYTES = 900_000  # of all records: a ConfigMap has at most 1 MiB


class History(Struct, frozen=True):
    """Finished tasks whose objects were deleted, newest first.

    `unreadable` is how many records of each namespace this version cannot read.
    """

    tasks: list[TaskStatus]
    unreadable: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        return [
            f"namespace {namespace}: {count} record{'s' if count > 1 else ''}"
            f" of {'deleted tasks' if count > 1 else 'a deleted task'} cannot be read"
            for namespace, count in self.unreadable.items()
        ]


def read(session: Session, scope: Scope) -> History:
    """Return the finished tasks of a scope whose objects were deleted. Raises ClusterError."""
    selector = f"metadata.name={names.HISTORY}"
    maps = objects.list_all(session, kinds.CONFIG_MAP, scope.namespace, field_selector=selector)
    tasks = list[TaskStatus]()
    unreadable = dict[str, int]()
    for item in maps:
        namespace = item.metadata.namespace
        known = _unpack(item.data)
        tasks += [replace(record.status, namespace=namespace) for record in known.values()]
        if lost := len(item.data or {}) - len(known):
            unreadable[namespace] = lost
    owned = [task for task in tasks if scope.user is None or scope.user.name == task.user]
    if not owned:
        return History([], unreadable)

    items = find.list_workload_metadata(session, scope.namespace, f"{names.TASK}=true")
    existing = set(map(ownership.key, items))
    gone = (task for task in owned if (task.namespace, task.id) not in existing)
    return History(sorted(gone, key=TaskStatus.position, reverse=True), unreadable)


def find_deleted(session: Session, scope: Scope, reference: str | None) -> TaskStatus | None:
    """Return the newest deleted task with an id or name, if the history has it."""
    with suppress(Forbidden):
        deleted = read(session, scope).tasks
        text = (reference or "").removeprefix("task/")
        return next((task for task in deleted if text in (task.id, task.name)), None)
    return None


def record(
    session: Session,
    namespace: str,
    finished: Iterable[TaskStatus],
    limit: int,
    complete: Callable[[TaskStatus], TaskStatus] = lambda task: task,
) -> int:
    """Keep finished tasks of a namespace in one request, the newest `limit`; return how many.

    Each is kept once, so that what is found out later, when its pods are gone, replaces nothing:
    before, `complete` adds what only its pods tell. Raises Conflict if another client writes at the
    same time.
    """
    existing: ConfigMap | None = None
    with suppress(NotFound):
        existing = objects.get(session, kinds.CONFIG_MAP, names.HISTORY, namespace)

    before = (existing and existing.data) or {}
    known = _unpack(before)

    final = {(key, task.created_at) for key, task in known.items() if task.status.finished}
    unknown = [task for task in finished if (task.id, task.created_at) not in final]
    new = {task.id: _pack(task) for task in parallel.map_parallel(complete, unknown)}
    after = _newest(known | new, limit)
    data = {key: after.get(key) for key in before | after if after.get(key) != before.get(key)}

    if not data:
        return 0

    kind = kinds.CONFIG_MAP
    type_fields = {"apiVersion": kind.api_version, "kind": kind.kind}
    metadata = {"name": names.HISTORY, "namespace": namespace}
    if existing:
        version = {"resourceVersion": existing.metadata.resource_version}
        manifest = {**type_fields, "metadata": metadata}
        objects.patch_object(session, manifest, {"metadata": version, "data": data})
    else:
        labels = {"labels": {names.MANAGED_BY: names.MANAGER}}
        objects.create(session, {**type_fields, "metadata": {**metadata, **labels}, "data": data})
    return len(new)


def _newest(tasks: Mapping[str, TaskRecord], limit: int) -> dict[str, str]:
    """Return the texts of the tasks that changed last: at most `limit`, and what fits."""
    newest = dict[str, str]()
    size = 0
    for key in sorted(tasks, key=lambda key: tasks[key].updated_at, reverse=True)[:limit]:
        text = msgspec.json.encode(tasks[key]).decode()
        size += len(key) + len(text.encode())
        if size > _MAX_BYTES:
            break
        newest[key] = text
    return newest


def _pack(task: TaskStatus) -> TaskRecord:
    """Return what lists show of a task.

    Nodes that have completed are left out, as if they had expired; others are without details
    unless they explain the failure.
    """
    first = task.nodes[0]
    failure = task.first_failure
    nodes = [
        node if node in (first, failure) else replace(node, job="", pod="", host="")
        for node in task.nodes
        if node is first or node.state is not State.COMPLETED
    ]
    return records.of(replace(task, nodes=tuple(nodes), missing=Missing.EXPIRED))


def _unpack(data: Mapping[str, str] | None) -> dict[str, TaskRecord]:
    tasks = {}
    for key, text in (data or {}).items():
        with suppress(ValueError):
            tasks[key] = records.check(decode(text.encode(), TaskRecord))
    return tasks
