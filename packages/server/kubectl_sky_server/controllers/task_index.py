"""Remember the workloads that a controller may have to act on, without their pods.

Pods and the current state are read when the index says that something is due.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_sky.observe import nodes, status
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.tasks.pipeline import needs_action
from kubectl_sky.words import names
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod, PodTemplate
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry

_MAX_ID = 63  # of a label


class Key(NamedTuple):
    """A task or a pipeline: its namespace, label and id."""

    namespace: str
    label: str
    id: str

    def __str__(self) -> str:
        return f"{self.label} {self.namespace}/{self.id}"


class TaskIndex:
    """The workloads of pipelines, groups and tasks with several nodes, by key. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._items: dict[Key, dict[str, TaskObject]] = defaultdict(dict)  # by uid
        self._waiting: dict[tuple[str, str], set[Key]] = defaultdict(set)  # by what they wait for

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def apply(self, item: TaskObject, *, deleted: bool = False) -> Key | None:
        """Note the current state of an object; return its key, or None if it is not relevant."""
        key = key_of(item)
        if key is None:
            return None

        after = item.metadata.annotations.get(names.AFTER, "").split()
        with self._lock:
            if after and deleted:
                self._waiting[key.namespace, after[0]].discard(key)
            elif after:
                self._waiting[key.namespace, after[0]].add(key)

            if deleted:
                self._items[key].pop(item.metadata.uid, None)
            else:
                self._items[key][item.metadata.uid] = item
            if not self._items[key]:
                del self._items[key]
        return key

    def list_waiting(self, namespace: str, ids: Iterable[str]) -> set[Key]:
        """Return what waits for one of the tasks or pipelines."""
        with self._lock:
            return {key for id_ in ids for key in self._waiting.get((namespace, id_), ())}

    def uids(self, key: Key) -> frozenset[str]:
        with self._lock:
            return frozenset(self._items.get(key, ()))

    def forget(self, key: Key, uids: Collection[str]) -> None:
        with self._lock:
            items = self._items.pop(key, {})
            remaining = {uid: item for uid, item in items.items() if uid not in uids}
            if remaining:
                self._items[key] = remaining

    def needs_action(self, key: Key) -> bool:
        tasks = self._tasks(key)
        targets = pipelines(tasks) if key.label == names.PIPELINE else tasks
        return any(map(needs_action, targets))

    def lacks_nodes(self, key: Key) -> bool:
        """Return whether objects are missing: submit creates, or stop deletes, some right now."""
        return any(task.incomplete for task in self._tasks(key))

    def _tasks(self, key: Key) -> list[status.TaskStatus]:
        with self._lock:
            items = list(self._items.get(key, {}).values())
        return status.tasks(items, ())


def key_of(item: Object) -> Key | None:
    key = key_of_task(item) if registry.is_root_object(item) else None
    if not key or key.label == names.PIPELINE:
        return key
    backend = registry.of(item)
    annotations = item.metadata.annotations
    nodes = annotations.get(names.NUM_NODES, "1")
    is_stopped = not backend.fail_fast and backend.stopping("node-0") and nodes != "1"
    return key if is_stopped or names.AFTER in annotations else None


def key_of_task(item: Object) -> Key | None:
    """Return the pipeline or else the task of an object or pod, by its labels."""
    namespace = item.metadata.namespace
    for label in (names.PIPELINE, names.TASK_ID):
        id_ = item.metadata.labels.get(label, "")
        if namespace and 0 < len(id_) <= _MAX_ID:
            return Key(namespace, label, id_)
    return None


class KeptPod(Object, frozen=True, kw_only=True):
    """What is kept in memory of a pod: its task, and what keeps it."""

    kept_by: str
    is_stuck: bool


def with_what_keeps_it(pod: Pod) -> KeptPod:
    metadata = replace(pod.metadata, annotations={}, owner_references=())
    is_stuck = nodes.is_stuck(pod)
    return KeptPod(metadata=metadata, kept_by=nodes.kept_by(pod), is_stuck=is_stuck)


def without_unused_fields(item: TaskObject) -> TaskObject:
    """Return an object without the annotations of others and its pod template."""
    annotations = {
        key: value for key, value in item.metadata.annotations.items() if names.is_ours(key)
    }
    metadata = replace(item.metadata, annotations=annotations, finalizers=())
    return replace(item, metadata=metadata, spec=replace(item.spec, template=PodTemplate()))
