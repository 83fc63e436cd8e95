"""The state of a PriorityClass, which its annotations keep. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan.fair_share import DEFAULT_QUEUE
from kubectl_sky.words import age, names
from kubectl_sky.words import scheduled_objects as objects
from kubectl_sky_server.fairshare.model_policy import Policy

Json = dict[str, Any]

OWNED = "owned"
LISTED = "listed"  # values of LABEL: made by us, or only listed in the settings
OWNER = "kubectl-sky/fair-share-owner"
VALUE = "kubectl-sky/fair-share-value"  # that we set; another one was set by somebody else
RECOVERS = "kubectl-sky/fair-share-recovers"  # time of the next step
_BASE = "kubectl-sky/fair-share-base"
_COUNT = "kubectl-sky/fair-share-count"
_SINCE = "kubectl-sky/fair-share-since"
_RUNNING = "kubectl-sky/fair-share-running"
_COUNTED = "kubectl-sky/fair-share-counted"
_HORIZON = "kubectl-sky/fair-share-horizon"

MAX_REMEMBERED = 5_000  # finished PodGroups; annotations hold 256 KiB
_MAX_COUNT = 10**9
_ID_LENGTH = 12  # hexadecimal digits of a uid: 48 bits
_ACTIVE = frozenset({"Running", "Unknown"})  # Unknown: only some of the pods run
_COMPLETED = "Completed"


class PodGroup(Struct, frozen=True):
    """A PodGroup of Volcano, as far as fair share reads it."""

    uid: str
    namespace: str
    name: str
    queue: str
    user: str
    priority_class: str
    phase: str
    created: str

    @classmethod
    def read(cls, item: objects.PodGroup) -> "PodGroup":
        metadata = item.metadata
        owner = metadata.annotations.get(names.ORIGINAL_USER)
        return cls(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            queue=item.spec.queue or DEFAULT_QUEUE,
            user=owner or metadata.labels.get(names.USERNAME, ""),
            priority_class=item.spec.priority_class_name,
            phase=item.status.phase,
            created=metadata.creation_timestamp,
        )

    @property
    def id(self) -> str:
        """The short uid that the class remembers."""
        return self.uid.replace("-", "")[:_ID_LENGTH]


class State(Struct, frozen=True):
    """What the value of a class follows from.

    Each PodGroup that starts is counted once: it is in `running`, then in `count` and, as long as
    it exists, in `counted`, oldest first. `since` is when the recovery interval began, in seconds.
    Finished PodGroups that are older than `horizon` are not counted unless they are in `running`.
    """

    base: int
    count: int = 0
    since: int = 0
    running: frozenset[str] = frozenset()
    counted: tuple[str, ...] = ()
    horizon: str = ""

    @classmethod
    def adopt(cls, base: int, groups: Iterable[PodGroup], now: int) -> "State":
        """Return the state of a class without one: what finished before is not counted."""
        completed = tuple(group.id for group in groups if group.phase == _COMPLETED)
        return cls(base, since=now, counted=completed)

    @property
    def weight(self) -> int:
        """The number of PodGroups that the value pays for."""
        return self.count + len(self.running)

    def recover(self, policy: Policy, now: int) -> "State":
        """Return the state after the intervals that have passed."""
        count, since = policy.recover(self.count, self.since, now)
        return replace(self, count=count, since=since)

    def observe(self, groups: Iterable[PodGroup], policy: Policy, now: int) -> "State":
        """Return the state after what the PodGroups of the class, all that exist, have done.

        A PodGroup that stopped running has finished: completed, evicted or deleted.
        """
        existing = {group.id: group for group in groups}
        active = {id_ for id_, group in existing.items() if group.phase in _ACTIVE}
        known = self.running.union(self.counted)

        started = active - known
        missed = {
            id_
            for id_, group in existing.items()
            if group.phase == _COMPLETED and id_ not in known and group.created > self.horizon
        }
        finished = (self.running - active) | missed
        remembered = [*self.counted, *sorted(finished.difference(self.counted))]

        state = replace(
            self,
            count=min(self.count + len(finished), _MAX_COUNT),
            running=(self.running & active) | started,
            counted=tuple(id_ for id_ in remembered if id_ in existing),
        )

        if started or finished:
            state = replace(state, since=policy.restart(self.count, self.since, now))
        return state._bound(existing)

    def _bound(self, existing: Mapping[str, PodGroup]) -> "State":
        """Forget the oldest finished PodGroups, and count no finished one that is as old."""
        if len(self.counted) <= MAX_REMEMBERED:
            return self
        by_age = sorted(self.counted, key=lambda id_: existing[id_].created)
        horizon = existing[by_age[-MAX_REMEMBERED - 1]].created
        return replace(
            self,
            counted=tuple(by_age[-MAX_REMEMBERED:]),
            horizon=max(horizon, self.horizon),
        )

    def annotations(self, policy: Policy) -> dict[str, str]:
        recovers = self.since + policy.recovery_interval
        return {
            VALUE: str(policy.value(self.weight, self.base)),
            _BASE: str(self.base),
            _COUNT: str(self.count),
            _SINCE: _format_time(self.since),
            RECOVERS: _format_time(recovers) if self.count else "",
            _RUNNING: ",".join(sorted(self.running)),
            _COUNTED: ",".join(self.counted),
            _HORIZON: self.horizon,
        }

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> "State | None":
        """Return the state of a PriorityClass; None if it has none, or an invalid one."""
        try:
            base = int(annotations[_BASE])
            count = int(annotations[_COUNT])
            since = int(datetime.fromisoformat(annotations[_SINCE]).timestamp())
        except (KeyError, ValueError, OverflowError):
            return None
        if not 0 <= count <= _MAX_COUNT or not -(2**31) <= base <= 2**31 - 1:
            return None

        return cls(
            base,
            count,
            since,
            frozenset(_ids(annotations.get(_RUNNING, ""))),
            tuple(_ids(annotations.get(_COUNTED, ""))),
            annotations.get(_HORIZON, ""),
        )


def _ids(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _format_time(seconds: int) -> str:
    return age.timestamp(datetime.fromtimestamp(seconds, UTC))
