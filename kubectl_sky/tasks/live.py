"""Follow the tasks of a scope for hours: after a change, only the tasks that changed.

Objects are kept as JSON, a fraction of what they take decoded, and decoded when their task changes.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Event
from time import monotonic

import msgspec
from msgspec import Struct

from kubectl_sky.cluster import access, parallel
from kubectl_sky.cluster.encoding import decode
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, WatchEvent, watch_forever
from kubectl_sky.errors import Forbidden, Unreachable
from kubectl_sky.observe import ownership
from kubectl_sky.observe.explain import Surroundings, explain
from kubectl_sky.observe.ownership import Key
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import evidence, find, pending
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.watch import OwnershipResolver
from kubectl_sky.words import kinds, names
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.objects import Metadata, Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject

_FOLD_INTERVAL = 0.2  # seconds: among many tasks, something always changes
_LOOK_INTERVAL = 10.0  # seconds between looks at why nodes do not start, or are missing
_BATCH = 500  # tasks that are decoded at a time


class Changes(Struct, frozen=True):
    """The tasks that have changed, and those that are gone."""

    tasks: list[TaskStatus]
    gone: list[Key]


class Rights(Struct, frozen=True):
    """What a user may read of what a list of tasks is made from.

    Users whose rights are `complete` and equal see the same list.
    """

    complete: bool  # for the kinds that a list cannot be without
    allowed: frozenset[str]


_Check = tuple[str, Kind, str]  # verb, kind, namespace ("": all)


def review_rights(session: Session, scope: Scope) -> Rights:
    """Ask the API server what a user may read. Raises ClusterError.

    Who may not ask has no complete rights.
    """
    namespace = scope.namespace or ""
    watched = find.select_objects(session, scope.namespace, scope.selector)
    checks: list[_Check] = [
        (verb, kind, namespace) for kind in watched.kinds for verb in ("list", "watch")
    ]
    needed = [check for check in checks if check[1] not in watched.optional]
    gang = access.find_gang(session)
    explaining = [kinds.SERVICE, kinds.EVENT, *([gang] if gang else ())]
    checks += [("list", kind, namespace) for kind in explaining]
    around = (kinds.NODE, kinds.POD, kinds.DEVICE_CLASS, kinds.RESOURCE_SLICE) if gang else ()
    checks += [("list", kind, "") for kind in around]

    def may(check: _Check) -> bool:
        verb, kind, place = check
        return access.may(session, verb, kind, namespace=place)

    try:
        answers = list(map(may, checks))
    except Forbidden:
        return Rights(complete=False, allowed=frozenset())
    allowed = [check for check, is_allowed in zip(checks, answers, strict=True) if is_allowed]
    return Rights(
        complete=all(check in allowed for check in needed),
        allowed=frozenset(f"{verb} {kind.resource} {place}" for verb, kind, place in allowed),
    )


class Packed(Object, frozen=True, kw_only=True):
    """What a watch has to know of an object, and all of it as JSON of a type."""

    data: bytes
    shape: type[Object]


def pack(item: Object) -> Packed:
    namespace, task_id = ownership.key(item)
    metadata = Metadata(
        name=item.metadata.name,
        uid=item.metadata.uid,
        creation_timestamp=item.metadata.creation_timestamp,
        resource_version=item.metadata.resource_version,
        namespace=namespace,
        labels={names.TASK_ID: task_id},
    )
    return Packed(metadata=metadata, data=msgspec.json.encode(item), shape=type(item))


class LiveTasks:
    """The objects of a scope's tasks, as a watch reports them.

    `complete` is set when all existing tasks were yielded.
    """

    def __init__(self, session: Session, scope: Scope) -> None:
        self.complete = False
        self._session = session
        self._scope = scope
        self._resolver = OwnershipResolver(session)
        self._objects: dict[str, Packed] = {}  # by uid
        self._members: dict[Key, set[str]] = defaultdict(set)  # the uids of each task's objects
        self._changed: set[Key] = set()
        self._unsettled: dict[Key, TaskStatus] = {}  # without nodes, or reasons why they wait
        self._unexplained: list[Key] = []  # since the latest look
        self._seen = Surroundings()
        self._look: Future[Surroundings] | None = None
        self._next_look = 0.0

    def changes(self, stop: Event) -> Iterator[Changes | None]:
        """Yield the existing tasks, then changes until `stop` is set; None when idle.

        An outage of the API server never ends it. Raises ClusterError when it refuses the watch.
        """
        watched = find.select_objects(self._session, self._scope.namespace, self._scope.selector)
        unsynced = set(watched.kinds)
        folded_at = 0.0
        for event in watch_forever(self._session, watched, stop, pack):
            if event and event.type is Change.SYNCED:
                unsynced.discard(event.kind)
            elif event:
                self._apply(event)
            if not unsynced and monotonic() >= folded_at + _FOLD_INTERVAL:
                with suppress(Unreachable):  # the watch retries, and so does the next round
                    self._look_around()
                    yield from self._fold()
                    self.complete = True
                folded_at = monotonic()
            yield None

    def _apply(self, event: WatchEvent) -> None:
        item = event.object
        uid = item.metadata.uid
        key = ownership.key(item)
        if before := self._objects.pop(uid, None):
            self._members[ownership.key(before)].discard(uid)
            self._changed.add(ownership.key(before))
        if event.type is not Change.DELETED and isinstance(item, Packed):
            self._objects[uid] = item
            self._members[key].add(uid)
        self._changed.add(key)

    def _look_around(self) -> None:
        """Look at why tasks wait, beside their changes: it can take seconds."""
        if self._look and self._look.done():
            look = self._look
            self._look = None
            self._seen = look.result()
            self._unexplained = sorted(self._unsettled)

        is_due = not (self._look or self._unexplained) and monotonic() >= self._next_look
        if self._unsettled and is_due:
            self._next_look = monotonic() + _LOOK_INTERVAL
            waiting = list(self._unsettled.values())
            self._look = parallel.run_future(
                pending.look, self._session, self._scope.namespace, waiting, name="look"
            )

    def _fold(self) -> Iterator[Changes]:
        # Only some at a time: changes do not wait for thousands that start.
        self._changed.update(self._unexplained[:_BATCH])
        del self._unexplained[:_BATCH]
        keys = sorted(self._changed)
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            tasks = self._read(part)
            found = {(task.namespace, task.id): task for task in tasks}
            self._changed.difference_update(part)
            for key in part:
                self._unsettled.pop(key, None)
            self._unsettled |= {
                key: task
                for key, task in found.items()
                if task.incomplete or pending.may_wait([task])
            }
            yield Changes(
                [explain(task, self._seen) for task in tasks],
                [key for key in part if key not in found],
            )

    def _read(self, keys: Sequence[Key]) -> list[TaskStatus]:
        packed = [self._objects[uid] for key in keys for uid in self._members[key]]
        objects = [decode(item.data, item.shape) for item in packed]
        for key in keys:
            if not self._members[key]:
                del self._members[key]
        pods = [item for item in objects if isinstance(item, Pod)]
        items = [item for item in objects if isinstance(item, TaskObject)]
        owned = self._resolver.decide(self._scope.namespace, self._scope.filter_owned(items), pods)
        return evidence.fold(self._session, owned)
