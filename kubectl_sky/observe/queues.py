"""Queues of Kueue: what they give, and who waits in them, in which place and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]

_WHY = "QuotaReserved"
_ORDINALS = {1: "first", 2: "second", 3: "third"}


@dataclass(frozen=True)
class Waiting:
    """One Workload that waits: of which object (`Job/train-abc`), its place, and why."""

    queue: str
    owner: str
    place: int
    of: int
    priority: int
    since: str  # RFC 3339 in UTC
    reason: str

    def __str__(self) -> str:
        """`second of 3 in the queue gold: couldn't assign flavors …`."""
        place = _ORDINALS.get(self.place, f"{self.place}th")
        why = f": {self.reason}" if self.reason else ""
        return f"{place} of {self.of} in the queue {self.queue}{why}"

    def as_json(self) -> dict[str, object]:
        """For programs, named as Kueue names it."""
        return {
            "workload": self.owner,
            "position": self.place,
            "priority": self.priority,
            "since": self.since,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Share:
    """What of a resource is taken: by the namespace, by all, and of how much; None: not known."""

    flavor: str
    resource: str
    used: str
    used_by_all: str | None
    quota: str | None

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class QueueStatus:
    """A LocalQueue: how many run and wait, what they take, and who waits in which place.

    `stopped` says why it lets nobody in; empty where it does. `others` is how many wait in its
    ClusterQueue from all namespaces; None where the user may not see that.
    """

    name: str
    namespace: str
    cluster_queue: str
    admitted: int
    pending: int
    stopped: str
    shares: tuple[Share, ...]
    waiting: tuple[Waiting, ...]
    others: int | None

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "cluster_queue": self.cluster_queue,
            "admitted": self.admitted,
            "pending": self.pending,
            "stopped": self.stopped,
            "pending_in_cluster_queue": self.others,
            "resources": [share.as_json() for share in self.shares],
            "waiting": [one.as_json() for one in self.waiting],
        }


def queues(
    local: Iterable[Object], cluster: Mapping[str, Object], workloads: Iterable[Object]
) -> list[QueueStatus]:
    """Fold LocalQueues, the ClusterQueues that can be seen (by name) and Workloads."""
    found = waiting(workloads)
    return [_queue(item, cluster, found) for item in sorted(local, key=_name)]


def _queue(item: Object, cluster: Mapping[str, Object], found: Sequence[Waiting]) -> QueueStatus:
    name = item["metadata"]["name"]
    above = str(item.get("spec", {}).get("clusterQueue") or "")
    status, whole = item.get("status") or {}, cluster.get(above)
    active = _condition(item, "Active")
    stopped = "" if active.get("status", "True") == "True" else active.get("message") or "stopped"
    return QueueStatus(
        name=name,
        namespace=item["metadata"].get("namespace") or "",
        cluster_queue=above,
        admitted=status.get("admittedWorkloads") or 0,
        pending=status.get("pendingWorkloads") or 0,
        stopped=str(stopped),
        shares=tuple(_shares(_used(item), whole)),
        waiting=tuple(one for one in found if one.queue == name),
        others=None if whole is None else (whole.get("status") or {}).get("pendingWorkloads") or 0,
    )


def _shares(used: Mapping[tuple[str, str], str], whole: Object | None) -> Iterable[Share]:
    if whole is None:
        return [Share(*key, total, None, None) for key, total in used.items()]
    every = _used(whole)
    return [
        Share(
            flavor["name"],
            resource["name"],
            used.get((flavor["name"], resource["name"]), "0"),
            every.get((flavor["name"], resource["name"]), "0"),
            str(resource.get("nominalQuota", "")),
        )
        for group in whole.get("spec", {}).get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
    ]


def _used(item: Object) -> dict[tuple[str, str], str]:
    """What those that were let in have, by flavor and resource."""
    flavors = (item.get("status") or {}).get("flavorsReservation") or ()
    return {
        (flavor["name"], resource["name"]): str(resource.get("total", "0"))
        for flavor in flavors
        for resource in flavor.get("resources") or ()
    }


def waiting(workloads: Iterable[Object]) -> list[Waiting]:
    """Return who waits in each queue of a namespace, in the order in which Kueue looks at them."""
    queues: dict[str, list[Object]] = {}
    for item in workloads:
        if _waits(item):
            queues.setdefault(item.get("spec", {}).get("queueName") or "", []).append(item)
    return [found for name, items in queues.items() for found in _places(name, items)]


def of_object(found: Iterable[Waiting], kind: str, name: str) -> Waiting | None:
    """Return the one that waits for an object."""
    return next((one for one in found if one.owner == f"{kind}/{name}"), None)


def _places(queue: str, items: Sequence[Object]) -> Iterable[Waiting]:
    ordered = sorted(items, key=lambda item: (-_priority(item), _since(item), _name(item)))
    for place, item in enumerate(ordered, start=1):
        owners = item["metadata"].get("ownerReferences") or ()
        owner = next((f"{one['kind']}/{one['name']}" for one in owners), f"Workload/{_name(item)}")
        reason = _condition(item, _WHY).get("message") or ""
        yield Waiting(
            queue, owner, place, len(ordered), _priority(item), _since(item), str(reason).strip()
        )


def _waits(item: Object) -> bool:
    if item.get("spec", {}).get("active") is False:
        return False
    done = ("QuotaReserved", "Admitted", "Finished")
    return not any(_condition(item, each).get("status") == "True" for each in done)


def _condition(item: Object, wanted: str) -> Object:
    """Return a condition by its type: its place in the list means nothing."""
    for found in item.get("status", {}).get("conditions") or ():
        if found.get("type") == wanted:
            return dict(found)
    return {}


def _priority(item: Object) -> int:
    return int(item.get("spec", {}).get("priority") or 0)


def _since(item: Object) -> str:
    """When it took its place: it takes another one when it could not start in time."""
    evicted = _condition(item, "Evicted")
    late = evicted.get("status") == "True" and evicted.get("reason") == "PodsReadyTimeout"
    began = evicted.get("lastTransitionTime") if late else None
    return str(began or item["metadata"].get("creationTimestamp") or "")


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])
