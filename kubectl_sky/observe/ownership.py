"""Decide which objects belong to a task: by uid and controller, not by label.

Anyone who can create objects in a namespace can copy the labels and annotations of a task. A pod
counts only if its chain of controllers leads to an object of the task. Objects with the same task
id count only if they were created together: they have the same owner, backend and number of nodes,
and the names that submit gives. If there are several such sets, the oldest one counts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.words import age, bounded, names
from kubectl_sky.words.kinds import JOB
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import FINAL, Object, condition

_DEPTH = 4  # most controllers between a pod and its task; usually one
_LONGEST = 2**31  # seconds after which a finished Job expires
_NEVER = "~"  # sorts after every time
_MAX_LISTED = 5  # ignored objects listed per task

Key = tuple[str, str]  # namespace and task id


class Missing(StrEnum):
    """Why nodes of a task have no object."""

    DELETED = "deleted"  # or without labels: submit has finished, so all objects existed
    NOT_SUBMITTED = "not submitted"  # submit has not finished: it was interrupted or still runs
    EXPIRED = "expired"  # the cluster deletes each object some time after it has finished
    UNKNOWN = "unknown"  # the objects that would tell are deleted, or not allowed to be read


class TaskObjects(Struct, frozen=True, dict=True):
    """The objects that run one task, and their pods by the uid of the object.

    `rivals` are objects that claim to be the task and were created in the same second, so nothing
    shows which are the user's. It is usually empty. `missing` tells why nodes have no object.
    """

    items: tuple[Object, ...]
    pods: Mapping[str, Sequence[Object]] = {}
    rivals: tuple[str, ...] = ()
    missing: Missing = Missing.UNKNOWN

    @property
    def key(self) -> Key:
        """The namespace and the task id."""
        return key(self.items[0])

    @property
    def num_nodes(self) -> int:
        """The number of nodes that the objects record, or that they run if it is larger."""
        recorded = bounded.integer(_annotations(self.items[0]).get(names.NUM_NODES))
        return max(recorded, self._existing)

    @property
    def lacks(self) -> int:
        """How many nodes have no object."""
        return self.num_nodes - self._existing

    @cached_property
    def _existing(self) -> int:
        return sum(len(registry.of(item).ranks(item)) for item in self.items)

    @property
    def absent(self) -> list[int]:
        """The ranks without an object."""
        existing = {rank for item in self.items for rank in registry.of(item).ranks(item)}
        return [rank for rank in range(self.num_nodes) if rank not in existing]

    @property
    def all_pods(self) -> list[Object]:
        """The pods of all objects."""
        return [pod for pods in self.pods.values() for pod in pods]


class Ownership(Struct, frozen=True):
    """The objects of each task, and a message for each object that is ignored."""

    tasks: tuple[TaskObjects, ...]
    ignored: tuple[str, ...]


def decide(
    items: Iterable[Object],
    pods: Iterable[Object],
    jobs: Iterable[Object] = (),
    known: Collection[str] = (),
) -> Ownership:
    """Assign objects and pods with task labels to tasks.

    `jobs` are the Jobs that controllers created for the objects; only their metadata is needed.
    `known` are uids of objects that certainly belong to the user, such as those that this command
    created.
    """
    items, pods = list(filter(_labelled, items)), list(filter(_labelled, pods))
    sizes = [
        (len(registry.of(item).ranks(item)), item)
        for item in filter(registry.is_root_object, items)
    ]
    claimants: dict[Key, list[Object]] = defaultdict(list)
    ignored: dict[Key, list[str]] = defaultdict(list)
    remaining = bounded.ALL_NODES
    for size, item in sorted(sizes, key=itemgetter(0)):
        if size > min(remaining, bounded.NODES):
            limit = (
                f"more than {bounded.NODES:,} nodes" if size > bounded.NODES else "too many nodes"
            )
            ignored[key(item)].append(f"{_named(item)} is ignored: it claims to have {limit}")
            continue
        remaining -= size
        claimants[key(item)].append(item)
    chosen = {task_key: _chosen(group, known) for task_key, group in claimants.items()}
    for task_key, task in chosen.items():
        member_ids = {id(item) for item in task.items}
        ignored[task_key] += [
            _foreign(item) for item in claimants[task_key] if id(item) not in member_ids
        ]
    controllers = {_uid(item): controller(item) for item in (*items, *jobs)}
    owned, orphans = _by_owner(pods, chosen, controllers)
    for pod in orphans:
        if key(pod) in chosen and _suspicious(pod, chosen[key(pod)]):
            ignored[key(pod)].append(_foreign(pod))
    tasks = tuple(
        TaskObjects(task.items, {uid: owned[uid] for uid in map(_uid, task.items)}, task.rivals)
        for task in chosen.values()
    )
    return Ownership(tasks, tuple(line for lines in ignored.values() for line in _few(lines)))


def explained(
    owned: Ownership, services: Collection[Object], now: datetime | None = None
) -> Ownership:
    """Decide for each task with missing nodes whether they were deleted or never submitted.

    The last step of submit makes the task's objects the owners of its Service. `services` are the
    Services of the tasks; only their metadata is needed. Before a Job can have
    expired, at `now`, it was deleted.
    """
    remaining = bounded.ALL_NODES - sum(len(task.items) for task in owned.tasks)
    tasks = []
    for task in owned.tasks:
        missing = _missing(task, services, now) if task.lacks else task.missing
        if missing is Missing.DELETED and task.lacks > remaining:
            missing = Missing.UNKNOWN
        remaining -= task.lacks if missing is Missing.DELETED else 0
        tasks.append(replace(task, missing=missing))
    return replace(owned, tasks=tuple(tasks))


def confirmed(owned: Ownership, current: Iterable[Object]) -> Ownership:
    """Take back what `explained` decided for tasks whose objects have changed since.

    They are still being submitted, or all of their objects are being deleted. An object that lost
    a label is as good as deleted.
    """
    uids: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for item in filter(_labelled, current):
        uids[key(item), _mark(item)].add(_uid(item))

    def changed(task: TaskObjects) -> bool:
        return uids[task.key, _mark(task.items[0])] != set(map(_uid, task.items))

    return replace(
        owned,
        tasks=tuple(
            replace(task, missing=Missing.UNKNOWN)
            if task.missing is Missing.DELETED and changed(task)
            else task
            for task in owned.tasks
        ),
    )


def _missing(task: TaskObjects, services: Iterable[Object], now: datetime | None) -> Missing:
    uids, identity = set(map(_uid, task.items)), _identity(task.items[0])
    owners = [
        owner_uids(service)
        for service in services
        if service["metadata"].get("namespace", "") == task.key[0] and identity & _identity(service)
    ]
    if any(uids & owner_uids for owner_uids in owners):
        return Missing.EXPIRED if _may_have_expired(task, now) else Missing.DELETED
    return Missing.NOT_SUBMITTED if set() in owners else Missing.UNKNOWN


def _may_have_expired(task: TaskObjects, now: datetime | None) -> bool:
    """Return whether the cluster deletes finished Jobs of the task, and may have begun to."""
    seconds = [
        bounded.integer(item["spec"]["ttlSecondsAfterFinished"], _LONGEST)
        for item in task.items
        if "ttlSecondsAfterFinished" in item.get("spec", {})
    ]
    created = age.parse(min(map(_created, task.items)))
    if not seconds or now is None or not created:
        return bool(seconds)
    return now - created >= timedelta(seconds=min(seconds))


def _identity(item: Object) -> set[tuple[str, str]]:
    """Return the labels of an object with the ids of its task and its pipeline or group."""
    labels = item["metadata"].get("labels") or {}
    return {(label, labels[label]) for label in (names.TASK_ID, names.PIPELINE) if label in labels}


def key(item: Object) -> Key:
    """Return the namespace and the task id label of an object."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), (metadata.get("labels") or {}).get(names.TASK_ID, "")


def _labelled(item: Object) -> bool:
    """Return whether an object has all labels by which commands select a task and its nodes.

    Each command selects by one or two of them; objects without the others are ignored by all.
    """
    labels = item["metadata"].get("labels") or {}
    one_node = item.get("kind") == JOB.kind and names.NODE_IDX in registry.of(item).rank0_selector
    return (
        labels.get(names.TASK) == "true"
        and bool(labels.get(names.TASK_ID))
        and names.USERNAME in labels
        and (names.NODE_IDX in labels or not one_node)
    )


def owner_uids(item: Object) -> set[str]:
    """Return the uids of the objects that own an object."""
    return {owner.get("uid") for owner in item["metadata"].get("ownerReferences") or ()}


def controller(item: Object) -> str:
    """Return the uid of an object's controller; empty without one."""
    return str(next((owner.get("uid") for owner in _controllers(item)), ""))


def between(items: Iterable[Object], pods: Iterable[Object]) -> dict[str, list[str]]:
    """Return the labels that select Jobs between objects and pods, with object names.

    Empty if the controller of every pod is among the objects.
    """
    objects = list(items)
    known_uids = set(map(_uid, objects))
    missing = {key(pod) for pod in pods if _of_job(pod) and controller(pod) not in known_uids}
    names_by_label: dict[str, list[str]] = defaultdict(list)
    for item in objects:
        label = registry.of(item).owner_label
        if label and key(item) in missing:
            names_by_label[label].append(item["metadata"]["name"])
    return names_by_label


def _controllers(item: Object) -> Iterator[Object]:
    owners = item["metadata"].get("ownerReferences") or ()
    return (owner for owner in owners if owner.get("controller"))


def _of_job(pod: Object) -> bool:
    return any(owner.get("kind") == JOB.kind for owner in _controllers(pod))


def _by_owner(
    pods: Iterable[Object], tasks: Mapping[Key, TaskObjects], makers: Mapping[str, str]
) -> tuple[Mapping[str, list[Object]], list[Object]]:
    """Return the pods by the uid of the owning object, and the pods without one."""
    roots = {_uid(item): task_key for task_key, task in tasks.items() for item in task.items}
    end_times = {_uid(item): _end(item) for task in tasks.values() for item in task.items}
    owned: dict[str, list[Object]] = defaultdict(list)
    orphans = []
    for pod in pods:
        uid = controller(pod)
        for _ in range(_DEPTH):
            if uid in roots:
                break
            uid = makers.get(uid, "")
        if uid and roots.get(uid) == key(pod) and _created(pod) <= end_times[uid]:
            owned[uid].append(pod)
        else:
            orphans.append(pod)
    return owned, orphans


def _chosen(claimants: Sequence[Object], known: Collection[str]) -> TaskObjects:
    """Return the objects created together; of several sets the best by `_rank`."""
    if len(claimants) == 1:  # nearly always; what follows takes 15 ms of 1,000 objects
        return TaskObjects(tuple(claimants))
    if len(claimants) == 1:
        return TaskObjects(tuple(claimants))
    sets: dict[tuple[bool, object], list[Object]] = defaultdict(list)
    for item in claimants:
        sets[_regular(item), _mark(item)].append(item)
    ranked = sorted(
        ((_rank(items, known, regular), items) for (regular, _), items in sets.items()),
        key=lambda pair: (pair[0], _named(pair[1][0])),
    )
    best, first = ranked[0]
    rivals = tuple(_claimant(items[0]) for rank, items in ranked if rank == best)
    members: dict[int, Object] = {}
    for item in sorted(first, key=lambda item: (_uid(item) not in known, _created(item))):
        ranks = registry.of(item).ranks(item)
        members.setdefault(ranks[0] if len(ranks) == 1 else -1, item)
    # An object that runs all nodes takes precedence over objects of single nodes.
    all_nodes = {index: item for index, item in members.items() if index == -1}
    return TaskObjects(
        tuple((all_nodes or members).values()), rivals=rivals if len(rivals) > 1 else ()
    )


def _rank(items: Sequence[Object], known: Collection[str], regular: bool) -> tuple[bool, bool, str]:
    """Return the sort key of a set: known first, then as submit names it, then oldest."""
    is_known = any(_uid(item) in known for item in items)
    return not is_known, not regular, min(map(_created, items))


def _mark(item: Object) -> tuple[object, ...]:
    """Return what all objects of one submit have in common."""
    annotations, labels = _annotations(item), item["metadata"].get("labels") or {}
    owner = labels.get(names.USERNAME), annotations.get(names.ORIGINAL_USER)
    title = annotations.get(names.ORIGINAL_NAME), labels.get(names.TASK_NAME)
    origin = item.get("kind"), annotations.get(names.BACKEND), annotations.get(names.NUM_NODES)
    return *owner, *title, *origin


def _regular(item: Object) -> bool:
    """Return whether an object has the kind and name that submit gives."""
    labels, annotations = item["metadata"].get("labels") or {}, _annotations(item)
    title = annotations.get(names.ORIGINAL_NAME) or labels.get(names.TASK_NAME, "")
    stem, task_id = names.dns_label(title), key(item)[1]
    backend = registry.of(item)
    if item.get("kind") != backend.kind.kind:
        return False
    expected = {names.task_object(stem, task_id)}
    if names.NODE_IDX in backend.rank0_selector:  # one object per node
        index = bounded.integer(labels.get(names.NODE_IDX))
        num_nodes = bounded.integer(annotations.get(names.NUM_NODES))
        if num_nodes and index >= num_nodes:
            return False
        node = names.node_object(stem, task_id, index, num_nodes)
        expected = {node} if num_nodes else expected | {node}
    return item["metadata"]["name"] in expected


def _suspicious(pod: Object, task: TaskObjects) -> bool:
    """Return whether a pod is neither being deleted nor part of a submit in progress."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    num_nodes = bounded.integer(_annotations(task.items[0]).get(names.NUM_NODES))
    ranks = sum(len(registry.of(item).ranks(item)) for item in task.items)
    return not controller(pod) or ranks >= num_nodes


def _few(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MAX_LISTED
    return [*lines[:_MAX_LISTED], *([f"{more:,} more objects are ignored"] if more > 0 else [])]


def _foreign(item: Object) -> str:
    task_id = key(item)[1]
    return f"{_named(item)} is ignored: it has the labels of task {task_id} but is not part of it"


def _named(item: Object) -> str:
    return f"{item.get('kind', 'object')}/{item['metadata']['name']}"


def _claimant(item: Object) -> str:
    """Return the name of an object and its owner by its labels."""
    owner = (item["metadata"].get("labels") or {}).get(names.USERNAME)
    return f"{_named(item)} (owner: {owner})"


def _uid(item: Object) -> str:
    return str(item["metadata"].get("uid") or "")


def _created(item: Object) -> str:
    return str(item["metadata"].get("creationTimestamp") or "")


def _end(item: Object) -> str:
    """Return when an object finished, or a time after all others.

    Its controller creates no pods after that, but anyone can create a pod that names it as
    controller.
    """
    final = condition(item, *FINAL) or {}
    return str(final.get("lastTransitionTime") or _NEVER)


def _annotations(item: Object) -> Mapping[str, str]:
    annotations: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return annotations
