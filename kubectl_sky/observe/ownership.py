"""Decide which objects and pods belong to which task: by labels, and pods by their controller.

A pod counts only if its chain of controllers leads to an object of the task, so that the pods of a
replaced Job do not count.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.words import age, bounded, names
from kubectl_sky.words.kinds import JOB
from kubectl_sky.words.objects import Object, Owner
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import Job, TaskObject
from kubectl_sky.workloads import registry

_DEPTH = 4  # most controllers between a pod and its task; usually one
_LONGEST = 2**31  # seconds after which a finished Job expires

Key = tuple[str, str]  # namespace and task id


class Missing(StrEnum):
    """Why nodes of a task have no object."""

    DELETED = "deleted"  # or without labels: submit has finished, so all objects existed
    NOT_SUBMITTED = "not submitted"  # submit has not finished: it was interrupted or still runs
    EXPIRED = "expired"  # the cluster deletes each object some time after it has finished
    UNKNOWN = "unknown"  # the objects that would tell are deleted, or not allowed to be read


class TaskObjects(Struct, frozen=True, dict=True):
    """The objects that run one task, and their pods by the uid of the object.

    `missing` tells why nodes have no object.
    """

    items: tuple[TaskObject, ...]
    pods: Mapping[str, Sequence[Pod]] = {}
    missing: Missing = Missing.UNKNOWN

    @property
    def key(self) -> Key:
        return key(self.items[0])

    @property
    def num_nodes(self) -> int:
        """The number of nodes that the objects record, or that they run if it is larger."""
        annotations = self.items[0].metadata.annotations
        return max(bounded.integer(annotations.get(names.NUM_NODES)), self._existing)

    @property
    def lacks(self) -> int:
        return self.num_nodes - self._existing

    @cached_property
    def _existing(self) -> int:
        return sum(len(registry.of(item).ranks(item)) for item in self.items)

    @property
    def absent(self) -> list[int]:
        existing = {rank for item in self.items for rank in registry.of(item).ranks(item)}
        return [rank for rank in range(self.num_nodes) if rank not in existing]

    @property
    def all_pods(self) -> list[Pod]:
        return [pod for pods in self.pods.values() for pod in pods]

    def edit_pods(self, edit: Callable[[Pod], Pod]) -> "TaskObjects":
        """Return the same with edited pods."""
        return replace(self, pods={uid: list(map(edit, pods)) for uid, pods in self.pods.items()})


def decide(
    items: Iterable[TaskObject], pods: Iterable[Pod], jobs: Iterable[Object] = ()
) -> list[TaskObjects]:
    """Assign objects and pods with task labels to tasks.

    `jobs` are the Jobs that controllers created for the objects; only their metadata is needed.
    """
    items = list(filter(_labelled, items))
    members: dict[Key, list[TaskObject]] = defaultdict(list)
    for item in filter(registry.is_root_object, items):
        members[key(item)].append(item)

    controllers = {_uid(item): controller(item) for item in (*items, *jobs)}
    task_of = {_uid(item): task_key for task_key, group in members.items() for item in group}

    pods_of: dict[str, list[Pod]] = defaultdict(list)
    for pod in filter(_labelled, pods):
        uid = controller(pod)
        for _ in range(_DEPTH):
            if uid in task_of:
                break
            uid = controllers.get(uid, "")
        if task_of.get(uid) == key(pod):
            pods_of[uid].append(pod)

    return [
        TaskObjects(
            tuple(sorted(group, key=lambda item: item.metadata.name)),
            {_uid(item): pods_of[_uid(item)] for item in group},
        )
        for group in members.values()
    ]


def explain(
    tasks: Iterable[TaskObjects], services: Collection[Object], now: datetime | None = None
) -> list[TaskObjects]:
    """Decide for each task with missing nodes whether they were deleted or never submitted.

    The last step of submit makes the task's objects the owners of its Service. `services` are the
    Services of the tasks; only their metadata is needed. Before a Job can have
    expired, at `now`, it was deleted.
    """
    return [
        replace(task, missing=_missing(task, services, now)) if task.lacks else task
        for task in tasks
    ]


def confirm(tasks: Iterable[TaskObjects], current: Iterable[Object]) -> list[TaskObjects]:
    """Take back what `explain` decided for tasks whose objects have changed since.

    They are still being submitted, or all of their objects are being deleted. An object that lost
    a label is as good as deleted.
    """
    uids: dict[Key, set[str]] = defaultdict(set)
    for item in filter(_labelled, current):
        uids[key(item)].add(_uid(item))
    return [
        replace(task, missing=Missing.UNKNOWN)
        if task.missing is Missing.DELETED and uids[task.key] != set(map(_uid, task.items))
        else task
        for task in tasks
    ]


def _missing(task: TaskObjects, services: Iterable[Object], now: datetime | None) -> Missing:
    uids = set(map(_uid, task.items))
    identity = _identity(task.items[0])
    owners = [
        {owner.uid for owner in service.metadata.owner_references}
        for service in services
        if service.metadata.namespace == task.key[0] and identity & _identity(service)
    ]
    if any(uids & owner_uids for owner_uids in owners):
        return Missing.EXPIRED if _may_have_expired(task, now) else Missing.DELETED
    return Missing.NOT_SUBMITTED if set() in owners else Missing.UNKNOWN


def _may_have_expired(task: TaskObjects, now: datetime | None) -> bool:
    """Return whether the cluster deletes finished Jobs of the task, and may have begun to."""
    seconds = [
        bounded.integer(item.spec.ttl_seconds_after_finished, _LONGEST)
        for item in task.items
        if item.spec.ttl_seconds_after_finished is not None
    ]
    created = age.parse(min(item.metadata.creation_timestamp for item in task.items))
    if not seconds or now is None or not created:
        return bool(seconds)
    return now - created >= timedelta(seconds=min(seconds))


def _identity(item: Object) -> set[tuple[str, str]]:
    labels = item.metadata.labels
    return {(label, labels[label]) for label in (names.TASK_ID, names.PIPELINE) if label in labels}


def key(item: Object) -> Key:
    metadata = item.metadata
    return metadata.namespace, metadata.labels.get(names.TASK_ID, "")


def _labelled(item: Object) -> bool:
    """Return whether an object has all labels by which commands select a task and its nodes.

    Each command selects by one or two of them; objects without the others are ignored by all.
    """
    labels = item.metadata.labels
    one_node = isinstance(item, Job) and names.NODE_IDX in registry.of(item).rank0_selector
    return (
        labels.get(names.TASK) == "true"
        and bool(labels.get(names.TASK_ID))
        and names.USERNAME in labels
        and (names.NODE_IDX in labels or not one_node)
    )


def controller(item: Object) -> str:
    return next((owner.uid for owner in _controllers(item)), "")


def jobs_between(items: Iterable[TaskObject], pods: Iterable[Pod]) -> dict[str, list[str]]:
    """Return the labels that select Jobs between objects and pods, with object names.

    Empty if the controller of every pod is among the objects.
    """
    objects = list(items)
    known_uids = set(map(_uid, objects))
    missing = {
        key(pod)
        for pod in pods
        for owner in _controllers(pod)
        if owner.kind == JOB.kind and owner.uid not in known_uids
    }
    names_by_label: dict[str, list[str]] = defaultdict(list)
    for item in objects:
        label = registry.of(item).owner_label
        if label and key(item) in missing:
            names_by_label[label].append(item.metadata.name)
    return names_by_label


def _controllers(item: Object) -> Iterator[Owner]:
    owners = item.metadata.owner_references
    return (owner for owner in owners if owner.controller)


def _uid(item: Object) -> str:
    return item.metadata.uid
