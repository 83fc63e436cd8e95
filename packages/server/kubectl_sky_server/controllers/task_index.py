"""Remember the workloads that a controller may have to act on, without their pods.

Pods and the current state are read when the index says that something is due.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from threading import Lock
from typing import NamedTuple

from kubectl_sky.cluster.session import Json
from kubectl_sky.observe import nodes, status
from kubectl_sky.observe.deletion import is_terminating
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.tasks.pipeline import needs_action
from kubectl_sky.words import names
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Object

_MAX_ID = 63  # of a label
_UNUSED_METADATA = {"managedFields", "finalizers", "generateName", "selfLink"}
_UNUSED_SPEC = {"selector", "template"}  # of Jobs, most of their size


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
        self._items: dict[Key, dict[str, Json]] = defaultdict(dict)  # by uid
        self._waiting: dict[tuple[str, str], set[Key]] = defaultdict(set)  # by what they wait for

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def apply(self, item: Json, *, deleted: bool = False) -> Key | None:
        """Note the current state of an object; return its key, or None if it is not relevant."""
        key = key_of(item)
        if key is None:
            return None

        after = (item["metadata"].get("annotations") or {}).get(names.AFTER, "").split()
        with self._lock:
            if after and deleted:
                self._waiting[key.namespace, after[0]].discard(key)
            elif after:
                self._waiting[key.namespace, after[0]].add(key)

            if deleted:
                self._items[key].pop(item["metadata"]["uid"], None)
            else:
                self._items[key][item["metadata"]["uid"]] = item
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
    annotations = item["metadata"].get("annotations") or {}
    nodes = annotations.get(names.NUM_NODES, "1")
    is_stopped = not backend.fail_fast and backend.stopping("node-0") and nodes != "1"
    return key if is_stopped or names.AFTER in annotations else None


def key_of_task(item: Object) -> Key | None:
    """Return the pipeline or else the task of an object or pod, by its labels."""
    labels = item["metadata"].get("labels") or {}
    namespace = item["metadata"].get("namespace")
    for label in (names.PIPELINE, names.TASK_ID):
        id_ = labels.get(label)
        if namespace and isinstance(id_, str) and 0 < len(id_) <= _MAX_ID:
            return Key(namespace, label, id_)
    return None


def with_what_keeps_it(pod: Json) -> Json:
    """Return what to keep in memory of a pod: its task, and what keeps it."""
    fields = ("name", "namespace", "uid", "labels", "resourceVersion", "creationTimestamp")
    metadata = {key: value for key, value in pod["metadata"].items() if key in fields}
    is_lost = is_terminating(pod) and nodes.is_silent(pod)
    return {
        "kind": pod.get("kind"),
        "metadata": metadata,
        "keptBy": nodes.kept_by(pod),
        "isLost": is_lost,
    }


def without_unused_fields(item: Json) -> Json:
    metadata = {
        key: value for key, value in item["metadata"].items() if key not in _UNUSED_METADATA
    }
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: value for key, value in annotations.items() if names.is_ours(key)
    }
    spec = {
        key: value for key, value in (item.get("spec") or {}).items() if key not in _UNUSED_SPEC
    }
    return {**item, "metadata": metadata, "spec": spec}
