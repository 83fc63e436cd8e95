"""Decide which objects belong to a task: by uid and controller reference, never by a label alone.

Anybody who may create objects in a namespace can copy the labels and annotations of a task. So a
pod counts only if its chain of controllers leads to an object of the task, and objects with the
same task id count only if they were made together: same owner, backend, number of nodes, and the
names that a submit gives. Of several such sets the one that was created first counts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubectl_sky import counts, names
from kubectl_sky.kinds import JOB
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Object, condition

_DEPTH = 4  # controllers between a pod and its task; one is usual
_FINAL = ("Complete", "Completed", "Succeeded", "Failed")  # conditions of objects that have ended
_NEVER = "~"  # sorts behind every time
_SHOWN = 5  # ignored objects that are named for one task

Key = tuple[str, str]  # namespace and task id


@dataclass(frozen=True)
class TaskObjects:
    """The objects that run one task, and their pods by the uid of the object.

    `rivals` are objects that claim to be the task and were created in the same second, so that
    nothing tells which are the user's; usually there are none.
    """

    items: tuple[Object, ...]
    pods: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    rivals: tuple[str, ...] = ()

    @property
    def all_pods(self) -> list[Object]:
        """The pods of all objects."""
        return [pod for pods in self.pods.values() for pod in pods]


@dataclass(frozen=True)
class Ownership:
    """What belongs to each task, and a sentence for each object that only claims to."""

    tasks: tuple[TaskObjects, ...]
    ignored: tuple[str, ...]


def decide(
    items: Iterable[Object],
    pods: Iterable[Object],
    jobs: Iterable[Object] = (),
    known: Collection[str] = (),
) -> Ownership:
    """Decide what belongs to whom among objects and pods that have the labels of tasks.

    `jobs` are what controllers made of the objects, of which only metadata is needed. `known` are
    the uids of objects that are the user's for sure, such as those that this command created.
    """
    items = list(items)
    sizes = {id(item): len(registry.of(item).ranks(item)) for item in filter(registry.top, items)}
    claimants: dict[Key, list[Object]] = defaultdict(list)
    ignored: dict[Key, list[str]] = defaultdict(list)
    left = counts.ALL_NODES
    for item in sorted(filter(registry.top, items), key=lambda item: sizes[id(item)]):
        size = sizes[id(item)]
        if size > min(left, counts.NODES):
            limit = f"more than {counts.NODES:,} nodes" if size > counts.NODES else "too many nodes"
            ignored[key(item)].append(f"{_named(item)} is ignored: it claims to have {limit}")
            continue
        left -= size
        claimants[key(item)].append(item)
    chosen = {of: _chosen(group, known) for of, group in claimants.items()}
    for of, task in chosen.items():
        counted = {id(item) for item in task.items}
        ignored[of] += [_foreign(item) for item in claimants[of] if id(item) not in counted]
    makers = {_uid(item): controller(item) for item in (*items, *jobs)}
    owned, others = _by_owner(pods, chosen, makers)
    for pod in others:
        if key(pod) in chosen and _suspicious(pod, chosen[key(pod)]):
            ignored[key(pod)].append(_foreign(pod))
    tasks = tuple(
        TaskObjects(task.items, {uid: owned[uid] for uid in map(_uid, task.items)}, task.rivals)
        for task in chosen.values()
    )
    return Ownership(tasks, tuple(line for lines in ignored.values() for line in _few(lines)))


def key(item: Object) -> Key:
    """Return the namespace of an object, and the task that its label says."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), (metadata.get("labels") or {}).get(names.TASK_ID, "")


def controller(item: Object) -> str:
    """Return the uid of the controller of an object; empty without one."""
    return str(next((owner.get("uid") for owner in _controllers(item)), ""))


def between(items: Iterable[Object], pods: Iterable[Object]) -> dict[str, list[str]]:
    """Return how to find the Jobs that lie between objects and pods: label to the objects' names.

    Empty where every pod is controlled by an object that has been read.
    """
    listed = list(items)
    read = set(map(_uid, listed))
    missing = {key(pod) for pod in pods if _of_job(pod) and controller(pod) not in read}
    found: dict[str, list[str]] = defaultdict(list)
    for item in listed:
        label = registry.of(item).between
        if label and key(item) in missing:
            found[label].append(item["metadata"]["name"])
    return found


def _controllers(item: Object) -> Iterator[Object]:
    owners = item["metadata"].get("ownerReferences") or ()
    return (owner for owner in owners if owner.get("controller"))


def _of_job(pod: Object) -> bool:
    return any(owner.get("kind") == JOB.kind for owner in _controllers(pod))


def _by_owner(
    pods: Iterable[Object], tasks: Mapping[Key, TaskObjects], makers: Mapping[str, str]
) -> tuple[Mapping[str, list[Object]], list[Object]]:
    """Return the pods by the uid of the object that they lead to, and those that lead to none."""
    roots = {_uid(item): of for of, task in tasks.items() for item in task.items}
    ends = {_uid(item): _end(item) for task in tasks.values() for item in task.items}
    owned: dict[str, list[Object]] = defaultdict(list)
    others = []
    for pod in pods:
        uid = controller(pod)
        for _ in range(_DEPTH):
            if uid in roots:
                break
            uid = makers.get(uid, "")
        if uid and roots.get(uid) == key(pod) and _created(pod) <= ends[uid]:
            owned[uid].append(pod)
        else:
            others.append(pod)
    return owned, others


def _chosen(claimants: Sequence[Object], known: Collection[str]) -> TaskObjects:
    """Return the objects that were made together, of several such sets the first one."""
    sets: dict[tuple[object, ...], list[Object]] = defaultdict(list)
    for item in claimants:
        sets[_mark(item)].append(item)
    ranked = sorted(sets.values(), key=lambda items: (*_rank(items, known), _named(items[0])))
    first = ranked[0]
    rank = _rank(first, known)
    rivals = tuple(_named(one[0]) for one in ranked if _rank(one, known) == rank)
    members: dict[int, Object] = {}
    for item in sorted(first, key=lambda item: (_uid(item) not in known, _created(item))):
        ranks = registry.of(item).ranks(item)
        members.setdefault(ranks[0] if len(ranks) == 1 else -1, item)
    whole = {at: item for at, item in members.items() if at == -1}  # it runs all nodes
    return TaskObjects(tuple((whole or members).values()), rivals=rivals if len(rivals) > 1 else ())


def _rank(items: Sequence[Object], known: Collection[str]) -> tuple[bool, bool, str]:
    """Order sets of objects: what is known, what is as a submit makes it, what was first."""
    is_known = any(_uid(item) in known for item in items)
    return not is_known, not _regular(items[0]), min(map(_created, items))


def _mark(item: Object) -> tuple[object, ...]:
    """Return what the objects of one submit have in common."""
    said, labels = _annotations(item), item["metadata"].get("labels") or {}
    owner = labels.get(names.USERNAME), said.get(names.ORIGINAL_USER)
    title = said.get(names.ORIGINAL_NAME), labels.get(names.TASK_NAME)
    made = item.get("kind"), said.get(names.BACKEND), said.get(names.NUM_NODES)
    return *owner, *title, *made, _regular(item)


def _regular(item: Object) -> bool:
    """Say whether an object has the kind and the name that a submit gives."""
    labels, said = item["metadata"].get("labels") or {}, _annotations(item)
    title = said.get(names.ORIGINAL_NAME) or labels.get(names.TASK_NAME, "")
    stem, task_id = names.dns_label(title), key(item)[1]
    backend = registry.of(item)
    if item.get("kind") != backend.kind.kind:
        return False
    expected = {names.task_object(stem, task_id)}
    if names.NODE_IDX in backend.first:  # an object for each node
        index = counts.whole(labels.get(names.NODE_IDX))
        asked = counts.whole(said.get(names.NUM_NODES))
        if asked and index >= asked:
            return False
        node = names.node_object(stem, task_id, index, asked)
        expected = {node} if asked else expected | {node}
    return item["metadata"]["name"] in expected


def _suspicious(pod: Object, task: TaskObjects) -> bool:
    """Say whether a pod is no remainder, and not of an object that is still being created."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    asked = counts.whole(_annotations(task.items[0]).get(names.NUM_NODES))
    ranks = sum(len(registry.of(item).ranks(item)) for item in task.items)
    return not controller(pod) or ranks >= asked


def _few(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"{more:,} more objects are ignored"] if more > 0 else [])]


def _foreign(item: Object) -> str:
    task_id = key(item)[1]
    return f"{_named(item)} is ignored: it has the labels of task {task_id} but is not part of it"


def _named(item: Object) -> str:
    return f"{item.get('kind', 'object')}/{item['metadata']['name']}"


def _uid(item: Object) -> str:
    return str(item["metadata"].get("uid") or "")


def _created(item: Object) -> str:
    return str(item["metadata"].get("creationTimestamp") or "")


def _end(item: Object) -> str:
    """Return when an object ended: its controller makes no pod later, but anybody may name it."""
    ended = condition(item, *_FINAL) or {}
    return str(ended.get("lastTransitionTime") or _NEVER)


def _annotations(item: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return found
