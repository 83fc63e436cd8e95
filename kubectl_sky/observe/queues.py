"""Show Kueue queues: quota, and pending Workloads with position and reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct

from kubectl_sky.plan.resources import readable
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.workloads.workload import QUEUED

Object = Mapping[str, Any]

_ORDINALS = {1: "first", 2: "second", 3: "third"}


class Waiting(Struct, frozen=True):
    """A pending Workload of a queue."""

    workload: Annotated[str, Note("its owner: `Job/train-abc`")]
    position: Annotated[int, Note("from 1")]
    priority: int
    since: str
    reason: Annotated[str, Note("why it is pending; may be empty")]


class PendingWorkload(Waiting, frozen=True):
    """A pending Workload, its queue, and how many Workloads wait in that."""

    queue: str
    of: int

    def __str__(self) -> str:
        """Return `second of 3 in the queue gold: couldn't assign flavors …`."""
        position = _ORDINALS.get(self.position, f"{self.position}th")
        details = f": {self.reason}" if self.reason else ""
        return f"{position} of {self.of} in the queue {self.queue}{details}"

    @property
    def in_queue(self) -> Waiting:
        return Waiting(*(getattr(self, name) for name in Waiting.__struct_fields__))


class Share(Struct, frozen=True):
    """The use of a resource of a queue; null if that is not known."""

    flavor: str
    resource: str
    used: Annotated[str, Note("by the namespace")]
    used_by_all: str | None
    quota: str | None

    def readable(self, amount: str | None) -> str | None:
        """Return an amount of the resource in a unit that people compare: `204.8Mi`."""
        return amount and readable(self.resource, amount)


class Queue(Struct, frozen=True):
    """A queue, its resources and what waits in it: `queues status`."""

    name: str
    namespace: str
    cluster_queue: str
    admitted: int
    pending: int
    stopped: Annotated[str, Note("why it admits nothing; empty if it is active")]
    pending_in_cluster_queue: Annotated[int | None, Note("null if you may not read it")]
    resources: tuple[Share, ...]
    waiting: tuple[Waiting, ...]


class QueueList(Document, frozen=True, kw_only=True):
    """The queues of the namespace: `queues list`, `GET /queues`."""

    queues: list[Queue]


def queues(
    local: Iterable[Object], cluster: Mapping[str, Object], workloads: Iterable[Object]
) -> list[Queue]:
    """Combine LocalQueues, the readable ClusterQueues (by name) and Workloads."""
    entries = waiting(workloads)
    return [_queue(item, cluster, entries) for item in sorted(local, key=_name)]


def _queue(
    item: Object, cluster: Mapping[str, Object], waiting: Sequence[PendingWorkload]
) -> Queue:
    name = item["metadata"]["name"]
    cluster_queue_name = str(item.get("spec", {}).get("clusterQueue") or "")
    status, cluster_queue = item.get("status") or {}, cluster.get(cluster_queue_name)
    active = _condition(item, "Active")
    stopped = "" if active.get("status", "True") == "True" else active.get("message") or "stopped"
    return Queue(
        name=name,
        namespace=item["metadata"].get("namespace") or "",
        cluster_queue=cluster_queue_name,
        admitted=status.get("admittedWorkloads") or 0,
        pending=status.get("pendingWorkloads") or 0,
        stopped=str(stopped),
        pending_in_cluster_queue=None
        if cluster_queue is None
        else (cluster_queue.get("status") or {}).get("pendingWorkloads") or 0,
        resources=tuple(_shares(_read_used(item), cluster_queue)),
        waiting=tuple(entry.in_queue for entry in waiting if entry.queue == name),
    )


def _shares(used: Mapping[tuple[str, str], str], cluster_queue: Object | None) -> Iterable[Share]:
    if cluster_queue is None:
        return [Share(*key, total, None, None) for key, total in used.items()]
    used_by_all = _read_used(cluster_queue)
    return [
        Share(
            flavor["name"],
            resource["name"],
            used.get((flavor["name"], resource["name"]), "0"),
            used_by_all.get((flavor["name"], resource["name"]), "0"),
            str(resource.get("nominalQuota", "")),
        )
        for group in cluster_queue.get("spec", {}).get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
    ]


def _read_used(item: Object) -> dict[tuple[str, str], str]:
    flavors = (item.get("status") or {}).get("flavorsReservation") or ()
    return {
        (flavor["name"], resource["name"]): str(resource.get("total", "0"))
        for flavor in flavors
        for resource in flavor.get("resources") or ()
    }


def waiting(workloads: Iterable[Object]) -> list[PendingWorkload]:
    """Return the pending Workloads of each queue, in the order Kueue tries them."""
    queues: dict[str, list[Object]] = {}
    for item in workloads:
        ends = [_condition(item, kind) for kind in ("QuotaReserved", "Admitted", "Finished")]
        goes_on = any(condition.get("status") == "True" for condition in ends)
        if not goes_on and item.get("spec", {}).get("active") is not False:
            queues.setdefault(item.get("spec", {}).get("queueName") or "", []).append(item)
    return [entry for name, items in queues.items() for entry in _positions(name, items)]


def of_object(waiting: Iterable[PendingWorkload], kind: str, name: str) -> PendingWorkload | None:
    """Return the entry of an object, or None."""
    return next((entry for entry in waiting if entry.workload == f"{kind}/{name}"), None)


def _positions(queue: str, items: Sequence[Object]) -> Iterable[PendingWorkload]:
    ordered = sorted(items, key=lambda item: (-_priority(item), _since(item), _name(item)))
    for position, item in enumerate(ordered, start=1):
        owners = item["metadata"].get("ownerReferences") or ()
        owner = next((f"{it['kind']}/{it['name']}" for it in owners), f"Workload/{_name(item)}")
        reason = str(_condition(item, "QuotaReserved").get("message") or "").strip()
        values = owner, position, _priority(item), _since(item), reason
        yield PendingWorkload(*values, queue, len(ordered))


def _condition(item: Object, kind: str) -> Object:
    """Return a condition by its type; the order of the list has no meaning."""
    for condition in item.get("status", {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _priority(item: Object) -> int:
    return int(item.get("spec", {}).get("priority") or 0)


def _since(item: Object) -> str:
    """Return the time by which Kueue orders the Workload.

    This is its creation, or its eviction if its pods were not ready in time.
    """
    evicted = _condition(item, "Evicted")
    timed_out = evicted.get("status") == "True" and evicted.get("reason") == "PodsReadyTimeout"
    requeued_at = evicted.get("lastTransitionTime") if timed_out else None
    return str(requeued_at or item["metadata"].get("creationTimestamp") or "")


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


_UNSEEN = "no Volcano scheduler has handled it"
_GROUP_REASONS = {
    "": "Unseen",
    "Pending": QUEUED,
    "Inqueue": "Unschedulable",
    "Unknown": "Unschedulable",
}


class WaitingGroup(Struct, frozen=True):
    """Why a group is pending.

    `phase` is Volcano's; it is empty if no scheduler has handled the group.
    """

    name: str
    queue: str
    phase: str
    message: str

    @property
    def reason(self) -> str:
        """The reason why its nodes are pending, in one word."""
        return _GROUP_REASONS[self.phase]

    def __str__(self) -> str:
        """Return `PodGroup train-abc is Pending in Volcano's queue gold: …`."""
        if not self.phase:
            return f"PodGroup {self.name}: {_UNSEEN}"
        details = f": {self.message}" if self.message else ""
        return f"PodGroup {self.name} is {self.phase} in Volcano's queue {self.queue}{details}"


def may_limit(queue: Object | None) -> bool:
    """Return whether a Volcano queue may be what a group waits for; None is a queue not read.

    A queue without a capability of its own or of a parent has all that the cluster has.
    """
    spec = (queue or {}).get("spec") or {}
    return queue is None or bool(spec.get("capability")) or spec.get("parent", "root") != "root"


def waiting_group(group: Object) -> WaitingGroup | None:
    status = group.get("status") or {}
    phase = status.get("phase") or ""
    if phase not in _GROUP_REASONS:
        return None
    unschedulable = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True"
    ]
    unschedulable.sort(key=lambda condition: condition.get("lastTransitionTime") or "")
    latest = unschedulable[-1] if unschedulable else {}
    message = latest.get("message") or latest.get("reason") or ""
    queue = (group.get("spec") or {}).get("queue") or "default"
    return WaitingGroup(group["metadata"]["name"], queue, phase, str(message).strip())
