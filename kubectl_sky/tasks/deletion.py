"""Wait until what was deleted is gone, pods included, or say what keeps it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic, sleep

from msgspec import Struct

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Interrupted
from kubectl_sky.observe.deletion import Hold, finalizers, hold_of, hold_of_pod, summarize
from kubectl_sky.observe.ownership import controller
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks.find import MAX_LABEL_VALUES, Item, list_pods
from kubectl_sky.words import names
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod

LIMIT_SECONDS = 30.0
REQUEST_SECONDS = 5.0  # of a server: a request holds one of few threads
_KILL_SECONDS = 5.0  # more for pods that are killed then: the default grace period is as long
_FIRST_PAUSE = 0.1
_MAX_PAUSE = 1.0
_MAX_SHOWN = 20  # tasks in a message

PodTitle = Callable[[Pod], str]


class Deleted(Struct, frozen=True):
    """A task or service whose objects were deleted: their uids, and the label of its pods."""

    title: str  # `task/kqf7x2wm (train)`
    namespace: str
    label: str
    value: str
    uids: Mapping[str, Kind]
    title_of_pod: PodTitle


class Remainder(Struct, frozen=True):
    """What was deleted and still exists, and why; `id` is that of a task."""

    id: str
    title: str
    holds: Sequence[Hold]

    def __str__(self) -> str:
        return f"{self.title}: {'; '.join(summarize(self.holds))}"


def of_tasks(tasks: Iterable[TaskStatus]) -> list[Deleted]:
    """Return what is deleted with tasks, for `wait_until_gone`."""
    return [
        Deleted(
            f"task/{task.id} ({task.name})",
            task.namespace,
            names.TASK_ID,
            task.id,
            dict.fromkeys(task.uids.values(), task.workload.kind),
            _title_of_node(task),
        )
        for task in tasks
    ]


def _title_of_node(task: TaskStatus) -> PodTitle:
    return lambda pod: task.title(task.workload.rank(pod))


def wait_until_gone(
    session: Session, deleted: Sequence[Deleted], seconds: float | None = None
) -> list[Remainder]:
    """Wait until the objects and pods are gone; return what still exists after `seconds`.

    All are waited for together, with one list of each kind for 100 tasks of a namespace.
    Raises Interrupted, and ClusterError if they cannot be read.
    """
    return poll(lambda: _remaining(session, deleted), seconds)


def check_gone(session: Session, tasks: Iterable[TaskStatus]) -> None:
    """Wait until deleted tasks are gone. Raises ClusterError if some remain."""
    if remaining := wait_until_gone(session, of_tasks(tasks)):
        raise still_deleting(remaining)


def poll(read: Callable[[], list[Remainder]], seconds: float | None = None) -> list[Remainder]:
    """Read what remains until nothing does; return what still does after `seconds`."""
    limit = LIMIT_SECONDS if seconds is None else seconds
    started = monotonic()
    pause = _FIRST_PAUSE

    try:
        while remaining := read():
            elapsed = monotonic() - started
            if elapsed > limit and not (elapsed < limit + _KILL_SECONDS and _end_soon(remaining)):
                break
            sleep(pause)
            pause = min(pause * 1.5, _MAX_PAUSE)
    except KeyboardInterrupt:
        hint = "`kubectl sky list` shows what still exists"
        raise Interrupted("interrupted; the deletion goes on in the cluster", hint) from None
    except ClusterError as error:
        error.what = (
            f"the deletion has begun, and whether it is complete is not known: {error.what}"
        )
        raise
    return remaining


def _end_soon(remaining: Iterable[Remainder]) -> bool:
    """Return whether there are only pods whose grace period is almost over, or just was."""
    left = [hold.seconds_left for item in remaining for hold in item.holds]
    return all(seconds is not None and abs(seconds) < _KILL_SECONDS for seconds in left)


def _remaining(session: Session, deleted: Sequence[Deleted]) -> list[Remainder]:
    remainders: list[Remainder] = []
    groups: dict[tuple[str, str], list[Deleted]] = defaultdict(list)
    for item in deleted:
        groups[item.namespace, item.label].append(item)
    for (namespace, label), members in groups.items():
        for start in range(0, len(members), MAX_LABEL_VALUES):
            part = members[start : start + MAX_LABEL_VALUES]
            remainders += _read(session, namespace, label, part)
    return remainders


def _read(
    session: Session, namespace: str, label: str, deleted: Sequence[Deleted]
) -> list[Remainder]:
    selector = f"{label} in ({','.join(sorted({item.value for item in deleted}))})"
    own_kinds = dict.fromkeys(kind for item in deleted for kind in item.uids.values())

    def list_kind(kind: Kind) -> list[Object]:
        return objects.list_metadata(session, kind, namespace, label_selector=selector)

    with parallel.pool() as pool:
        listed = pool.submit(list_pods, session, namespace, selector)
        lists = parallel.map_parallel(list_kind, own_kinds)
        pods_of = _by_value(listed.result(), label)
    items = _by_value((item for items in lists for item in items), label)
    remainders = []
    for entry in deleted:
        of_entry = items.get(entry.value, [])
        by_pods = [
            hold_of_pod(pod, entry.title_of_pod(pod), session.now())
            for pod in pods_of.get(entry.value, ())
            if _is_of(pod, entry, of_entry)
        ]
        by_objects = [
            hold_of(entry.uids[item.metadata.uid].kind, item.metadata)
            for item in of_entry
            if item.metadata.uid in entry.uids and (finalizers(item.metadata) or not by_pods)
        ]
        if holds := by_objects + by_pods:
            remainders.append(Remainder(entry.value, entry.title, holds))
    return remainders


def _by_value(items: Iterable[Item], label: str) -> dict[str, list[Item]]:
    grouped: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        grouped[item.metadata.labels[label]].append(item)
    return grouped


def _is_of(pod: Pod, deleted: Deleted, items: Iterable[Object]) -> bool:
    """Return whether a pod belongs to what was deleted, not to what has its labels since."""
    newer = {item.metadata.uid for item in items} - set(deleted.uids)
    return not newer or controller(pod) in deleted.uids


def still_deleting(remaining: Sequence[Remainder]) -> ClusterError:
    """Return the error that what was deleted still exists, and why."""
    lines = [str(item) for item in remaining[:_MAX_SHOWN]]
    more = len(remaining) - len(lines)
    lines += [f"and {more} more"] if more else []
    steps = dict.fromkeys(hold.step for item in remaining for hold in item.holds)
    what = "still being deleted: " + "\n  ".join(lines)
    return ClusterError(what, "; ".join(list(steps)[:2]))
