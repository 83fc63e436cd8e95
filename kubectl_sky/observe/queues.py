"""Show Kueue queues: quota, and pending Workloads with position and reason."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe.quota_tree import QuotaNode, build_tree
from kubectl_sky.plan.resources import amount_of, readable, show
from kubectl_sky.words import age
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.objects import NO_CONDITION, Condition, LooseCondition, Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.scheduled_objects import (
    Gang,
    KueueQueue,
    PodGroup,
    QueuedWorkload,
    QueueSpec,
    TopologyConstraint,
    VolcanoQueue,
)
from kubectl_sky.workloads.workload import QUEUED

_ORDINALS = {1: "first", 2: "second", 3: "third"}
_NEVER = "> maximum capacity"  # in the message of Kueue
_RECENT = timedelta(hours=6)
_MIN_ADMISSIONS = 3  # that a guess needs


def ordinal(position: int) -> str:
    return _ORDINALS.get(position, f"{position}th")


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
        details = f": {self.reason}" if self.reason else ""
        return f"{ordinal(self.position)} of {self.of} in the queue {self.queue}{details}"

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
    free: Annotated[str | None, Note("what may still be used, also by borrowing")] = None

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
    cohort: Annotated[str, Note("whose unused quota it may borrow; may be empty")]
    strict: Annotated[bool, Note("whether one that does not fit holds up those behind it")]
    recent_admissions: Annotated[int, Note("in the last 6 hours, of those that you may read")]
    interval_seconds: Annotated[
        float | None,
        Note("mean time between these; times a position, a guess of its waiting time"),
    ]

    def position(self, priority: int = 0) -> int:
        """Return the position that a new workload of a priority would have."""
        if not self.waiting:  # or they are not readable
            return self.pending + 1
        return 1 + sum(item.priority >= priority for item in self.waiting)

    def guess(self, position: int) -> str:
        """Return a guess of the waiting time; empty without enough admissions."""
        if self.interval_seconds is None:
            return ""
        return f"about {age.duration(timedelta(seconds=self.interval_seconds * position))}"

    def describe_place(self, priority: int = 0) -> str:
        """Return which place a new task would have, and a guess of its waiting time."""
        position = self.position(priority)
        text = f"would be {ordinal(position)} in queue"
        guess = self.guess(position)
        count = f"{self.recent_admissions} admissions of the last {int(_RECENT.seconds / 3600)}h"
        return f"{text}; {guess} until it is admitted: a guess from {count}" if guess else text

    @property
    def next_task(self) -> str:
        """When a task would be admitted, by what it requests."""
        if self.stopped:
            return f"admits nothing now: {self.stopped}"
        flavors: dict[str, list[str]] = {}
        full = set()
        for share in self.resources:
            if share.free is None or not amount_of(share.free):
                full.add(share.flavor)
            text = f"{share.readable(share.free)} {share.resource}"
            flavors.setdefault(share.flavor, []).append(text)
        rooms = [", ".join(texts) for flavor, texts in flavors.items() if flavor not in full]
        if not rooms or (self.strict and self.position() > 1):
            return self.describe_place()
        return f"would be admitted now if it requests up to {' or up to '.join(rooms)}"


class QueueList(Document, frozen=True, kw_only=True):
    """The queues of the namespace: `queues list`, `GET /queues`."""

    queues: list[Queue]


def queues(
    local: Iterable[KueueQueue],
    cluster: Mapping[str, KueueQueue],
    workloads: Sequence[QueuedWorkload],
    now: datetime,
    cohorts: Sequence[KueueQueue] = (),
) -> list[Queue]:
    """Combine LocalQueues, the readable ClusterQueues (by name), cohorts and Workloads."""
    tree = build_tree(cluster.values(), cohorts)
    return [_queue(item, cluster, tree, workloads, now) for item in sorted(local, key=_name)]


def _queue(
    item: KueueQueue,
    cluster: Mapping[str, KueueQueue],
    tree: Mapping[str, QuotaNode],
    workloads: Sequence[QueuedWorkload],
    now: datetime,
) -> Queue:
    name = item.metadata.name
    cluster_queue_name = item.spec.cluster_queue
    status = item.status
    cluster_queue = cluster.get(cluster_queue_name)

    active = _condition(item, "Active")
    stopped = ""
    if active.status not in ("", "True"):
        stopped = active.message or "stopped"

    in_queue = [item for item in workloads if item.spec.queue_name == name]
    pending = None
    if cluster_queue is not None:
        pending = cluster_queue.status.pending_workloads

    times = [time for time in map(_admitted_at, in_queue) if time and now - time <= _RECENT]
    interval = None
    if len(times) >= _MIN_ADMISSIONS:
        interval = (now - min(times)).total_seconds() / len(times)

    spec = cluster_queue.spec if cluster_queue else QueueSpec()
    return Queue(
        name=name,
        namespace=item.metadata.namespace,
        cluster_queue=cluster_queue_name,
        admitted=status.admitted_workloads,
        pending=status.pending_workloads,
        stopped=stopped,
        pending_in_cluster_queue=pending,
        resources=tuple(_shares(_read_used(item), cluster_queue, tree)),
        waiting=tuple(entry.in_queue for entry in waiting(in_queue)),
        cohort=spec.cohort_name or spec.cohort,
        strict=spec.queueing_strategy == "StrictFIFO",
        recent_admissions=len(times),
        interval_seconds=interval,
    )


def _shares(
    used: Mapping[tuple[str, str], str],
    cluster_queue: KueueQueue | None,
    tree: Mapping[str, QuotaNode],
) -> Iterable[Share]:
    if cluster_queue is None:
        return [Share(*key, total, None, None) for key, total in used.items()]

    used_by_all = _read_used(cluster_queue)
    node = tree[cluster_queue.metadata.name]
    return [
        Share(
            flavor.name,
            resource.name,
            used.get((flavor.name, resource.name), "0"),
            used_by_all.get((flavor.name, resource.name), "0"),
            str(resource.nominal_quota),
            show(resource.name, max(node.available((flavor.name, resource.name)), Fraction(0))),
        )
        for group in cluster_queue.spec.resource_groups or ()
        for flavor in group.flavors or ()
        for resource in flavor.resources or ()
    ]


def _read_used(item: KueueQueue) -> dict[tuple[str, str], str]:
    flavors = item.status.flavors_reservation or ()
    return {
        (flavor.name, resource.name): str(resource.total)
        for flavor in flavors
        for resource in flavor.resources or ()
    }


def waiting(workloads: Iterable[QueuedWorkload]) -> list[PendingWorkload]:
    """Return the pending Workloads of each queue, in the order Kueue tries them."""
    queues: dict[str, list[QueuedWorkload]] = {}
    for item in workloads:
        ends = [_condition(item, kind) for kind in ("QuotaReserved", "Admitted", "Finished")]
        goes_on = any(condition.status == "True" for condition in ends)
        if not goes_on and item.spec.active is not False:
            queues.setdefault(item.spec.queue_name, []).append(item)
    return [entry for name, items in queues.items() for entry in _positions(name, items)]


def of_object(waiting: Iterable[PendingWorkload], kind: str, name: str) -> PendingWorkload | None:
    """Return the entry of an object, or None."""
    return next((entry for entry in waiting if entry.workload == f"{kind}/{name}"), None)


def _positions(queue: str, items: Sequence[QueuedWorkload]) -> Iterable[PendingWorkload]:
    ordered = sorted(items, key=lambda item: (-_priority(item), _since(item), _name(item)))
    for position, item in enumerate(ordered, start=1):
        owners = item.metadata.owner_references
        owner = next((f"{it.kind}/{it.name}" for it in owners), f"Workload/{_name(item)}")
        reason = _condition(item, "QuotaReserved").message.strip()
        reason = f"can never be admitted: {reason}" if _NEVER in reason else reason
        values = owner, position, _priority(item), _since(item), reason
        yield PendingWorkload(*values, queue, len(ordered))


def _condition(item: KueueQueue | QueuedWorkload, kind: str) -> Condition:
    """Return a condition by its type; the order of the list has no meaning."""
    for condition in item.status.conditions:
        if condition.type == kind:
            return condition
    return NO_CONDITION


def _admitted_at(item: QueuedWorkload) -> datetime | None:
    admitted = _condition(item, "Admitted")
    return age.parse(admitted.last_transition_time) if admitted.status == "True" else None


def _priority(item: QueuedWorkload) -> int:
    return item.spec.priority or 0


def _since(item: QueuedWorkload) -> str:
    """Return the time by which Kueue orders the Workload.

    This is its creation, or its eviction if its pods were not ready in time.
    """
    evicted = _condition(item, "Evicted")
    timed_out = evicted.status == "True" and evicted.reason == "PodsReadyTimeout"
    requeued_at = evicted.last_transition_time if timed_out else None
    return requeued_at or item.metadata.creation_timestamp


def _name(item: Object) -> str:
    return item.metadata.name


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


def may_limit(queue: VolcanoQueue | None) -> bool:
    """Return whether a Volcano queue may be what a group waits for; None is a queue not read.

    A queue without a capability of its own or of a parent has all that the cluster has.
    """
    if queue is None or queue.spec is None:
        return queue is None
    return bool(queue.spec.capability) or queue.spec.parent not in (None, "root")


def waiting_group(group: PodGroup) -> WaitingGroup | None:
    status = group.status
    phase = status.phase
    if phase not in _GROUP_REASONS:
        return None
    unschedulable = [
        condition
        for condition in status.conditions
        if condition.type == "Unschedulable" and condition.status == "True"
    ]
    unschedulable.sort(key=lambda condition: condition.last_transition_time or "")
    latest = unschedulable[-1] if unschedulable else LooseCondition()
    message = latest.message or latest.reason or ""
    queue = group.spec.queue or "default"
    return WaitingGroup(group.metadata.name, queue, phase, message.strip())


def group_name(pod: Pod) -> str:
    """Return the PodGroup of Kubernetes that a pod names; empty for none."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""


def gang_of(group: Gang) -> tuple[int, str]:
    """Return how many pods of a PodGroup of Kubernetes start together, and their topology."""
    spec = group.spec
    gang = spec.scheduling_policy and spec.scheduling_policy.gang
    constraints = spec.scheduling_constraints
    topology = (constraints and constraints.topology) or (TopologyConstraint(),)
    count = gang.min_count if gang else 0
    return count, topology[0].key
