"""Decide which PriorityClasses are to be created, changed or deleted. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan.fair_share import LABEL, PER_USER, QUEUE, class_name
from kubectl_sky.words import kinds
from kubectl_sky.words.notice import Notice
from kubectl_sky_server.fairshare.model_policy import Policy
from kubectl_sky_server.fairshare.model_state import (
    LISTED,
    OWNED,
    OWNER,
    VALUE,
    PodGroup,
    State,
)

Json = dict[str, Any]

MAX_CLASSES = 1_000  # that we create for a queue: anybody can invent names of users
_RESET = Notice("annotations are invalid; counters were reset")
SYSTEM = "system-"  # never ours, whatever the settings say


class Remark(Struct, frozen=True):
    """An Event for an object: `about` is its kind, and its metadata."""

    about: Json
    reason: str
    message: Notice


class Change(Struct, frozen=True):
    """A PriorityClass as it is to be; `existing` None creates it."""

    manifest: Json
    existing: Json | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def replaces(self) -> bool:
        """Whether the value changes, which Kubernetes allows only for a new object."""
        return bool(self.existing and self.existing["value"] != self.manifest["value"])


@dataclass
class Decision:
    """Changes, classes to delete, Events, and the time of the next recovery in seconds, or None."""

    changes: list[Change] = field(default_factory=list)
    deletions: list[Json] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    next_recovery: int | None = None

    def add(self, manifest: Json, existing: Json | None, state: State, policy: Policy) -> None:
        """Add a change if there is one, and the recovery of the class."""
        if manifest != existing:
            self.changes.append(Change(manifest, existing))
        if state.count:
            recovery = state.since + policy.recovery_interval
            self.next_recovery = min(recovery, self.next_recovery or recovery)

    def delete(self, item: Json) -> None:
        """Delete a class instead of changing it."""
        self.changes = [change for change in self.changes if change.existing is not item]
        self.deletions.append(item)


@dataclass
class _Created:
    """The classes of a queue that we created: their number, and those that nothing needs.

    Nothing needs a class that no PodGroup names and whose value is its base: if it is created
    again, it is the same. A heap, by the time since when.
    """

    count: int = 0
    unneeded: list[tuple[int, str, Json]] = field(default_factory=list)

    def add(self, item: Json, used: list[PodGroup], state: State) -> None:
        self.count += 1
        if not used and not state.weight:
            heappush(self.unneeded, (state.since, item["metadata"]["name"], item))

    def reserve(self, decision: Decision) -> bool:
        """Return whether another class may be created; in a full queue, delete one for it."""
        if self.count >= MAX_CLASSES:
            if not self.unneeded:
                return False
            decision.delete(heappop(self.unneeded)[-1])
            self.count -= 1
        self.count += 1
        return True


class _Managed(Struct, frozen=True):
    """Why a class is managed: for the PodGroups of a queue, and of an owner if it is ours."""

    queue: str
    owner: str | None
    policy: Policy

    def complaint(self, group: PodGroup) -> str:
        """Return why a PodGroup is not counted although it names the class; empty if it is."""
        if group.queue != self.queue:
            return f'the class belongs to queue "{self.queue}"'
        if self.owner is not None and find_owner(group, self.policy) != self.owner:
            return "the class belongs to another owner"
        return ""


def find_owner(group: PodGroup, policy: Policy) -> str:
    return group.user if policy.per == PER_USER else group.namespace


def decide(
    policies: Mapping[str, Policy], classes: Iterable[Json], groups: Iterable[PodGroup], now: int
) -> Decision:
    """Compare all PriorityClasses with all PodGroups, at a time in seconds."""
    decision = Decision()
    by_class = defaultdict(list)
    created: dict[str, _Created] = defaultdict(_Created)  # by queue
    for group in groups:
        by_class[group.priority_class].append(group)
    by_class.pop("", None)

    for item in classes:
        used = by_class.pop(item["metadata"]["name"], [])
        managed = _find_managed(item, policies)
        if managed:
            state = _update(decision, item, managed, used, now)
            if managed.owner is not None:
                created[managed.queue].add(item, used, state)
        elif any(_match_owner(group, policies) for group in used):
            message = Notice(f"not changed: it lacks the label {LABEL}={OWNED} and its annotations")
            decision.remarks.append(Remark(_about(item), "NotManaged", message))

    for name, used in by_class.items():
        _create(decision, name, policies, used, now, created)
    return decision


def _find_managed(item: Json, policies: Mapping[str, Policy]) -> _Managed | None:
    """Return why a class is ours to change; None if it is not."""
    metadata = item["metadata"]
    name = metadata["name"]
    if name.startswith(SYSTEM):
        return None
    if (metadata.get("labels") or {}).get(LABEL) == OWNED:
        annotations = metadata.get("annotations") or {}
        queue = annotations.get(QUEUE, "")
        owner = annotations.get(OWNER, "")
        is_ours = queue in policies and name == class_name(queue, owner)
        return _Managed(queue, owner, policies[queue]) if is_ours else None
    for queue, policy in policies.items():
        if name in policy.classes:
            return _Managed(queue, None, policy)
    return None


def _update(
    decision: Decision, item: Json, managed: _Managed, used: list[PodGroup], now: int
) -> State:
    """Add a change of an existing class, if there is one; return its state."""
    policy = managed.policy
    stored = State.read(item["metadata"].get("annotations") or {})
    groups = _count(decision, managed, used)
    owned = managed.owner is not None

    if stored is None and owned:
        decision.remarks.append(Remark(_about(item), "FairShareReset", _RESET))
    base = policy.base if owned or stored is None else stored.base
    if stored is None and not owned:
        base = item["value"]

    state = stored or State.adopt(base, groups, now)
    state = replace(state, base=base).recover(policy, now).observe(groups, policy, now)

    written = (item["metadata"].get("annotations") or {}).get(VALUE)
    if written and written != str(item["value"]):
        message = Notice(
            f"value was set to {item['value']} by another client; the value was restored"
        )
        decision.remarks.append(Remark(_about(item), "PriorityClassEdited", message))

    marker = OWNED if owned else LISTED
    decision.add(_manifest(item, marker, managed.queue, state, policy), item, state, policy)
    return state


def _count(decision: Decision, managed: _Managed, used: list[PodGroup]) -> list[PodGroup]:
    """Return the PodGroups that count; the others get an Event."""
    for group in used:
        complaint = managed.complaint(group)
        if complaint:
            message = f'not counted for PriorityClass "{group.priority_class}": {complaint}'
            decision.remarks.append(Remark(_about_group(group), "NotCounted", Notice(message)))
    return [group for group in used if not managed.complaint(group)]


def _match_owner(group: PodGroup, policies: Mapping[str, Policy]) -> str:
    """Return the owner of a PodGroup if its class has the name that is ours; else nothing."""
    policy = policies.get(group.queue)
    owner = find_owner(group, policy) if policy else ""
    return owner if group.priority_class == class_name(group.queue, owner) else ""


def _create(
    decision: Decision,
    name: str,
    policies: Mapping[str, Policy],
    used: list[PodGroup],
    now: int,
    created: Mapping[str, _Created],
) -> None:
    """Create a missing class that is ours by its name, as far as PodGroups of the owner use it."""
    for group in used:
        owner = _match_owner(group, policies)
        if owner and not created[group.queue].reserve(decision):
            message = f'not created: queue "{group.queue}" has {MAX_CLASSES:,} PriorityClasses'
            decision.remarks.append(Remark(_about_group(group), "TooManyClasses", Notice(message)))
            return

        if owner:
            policy = policies[group.queue]
            groups = _count(decision, _Managed(group.queue, owner, policy), used)
            state = State(policy.base, since=now).observe(groups, policy, now)
            item: Json = {
                "apiVersion": kinds.PRIORITY_CLASS.api_version,
                "kind": kinds.PRIORITY_CLASS.kind,
                "metadata": {"name": name, "annotations": {OWNER: owner}},
                "preemptionPolicy": "Never",  # a share decides who starts, and stops no pod
                "description": f"Fair share of {owner} in queue {group.queue}: kubectl-sky",
            }
            decision.add(_manifest(item, OWNED, group.queue, state, policy), None, state, policy)
            return


def _manifest(item: Json, marker: str, queue: str, state: State, policy: Policy) -> Json:
    """Return a class with this state; all else stays."""
    metadata = item["metadata"]
    annotations = {**(metadata.get("annotations") or {}), QUEUE: queue}
    return item | {
        "metadata": metadata
        | {
            "labels": {**(metadata.get("labels") or {}), LABEL: marker},
            "annotations": annotations | state.annotations(policy),
        },
        "value": policy.value(state.weight, state.base),
    }


def _about_group(group: PodGroup) -> Json:
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {"name": group.name, "namespace": group.namespace, "uid": group.uid},
    }


def _about(item: Json) -> Json:
    return {
        "apiVersion": kinds.PRIORITY_CLASS.api_version,
        "kind": kinds.PRIORITY_CLASS.kind,
        "metadata": {key: item["metadata"].get(key, "") for key in ("name", "uid")},
    }
