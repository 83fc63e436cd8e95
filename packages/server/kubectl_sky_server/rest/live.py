"""One watch for all who look at the same tasks, and may read the same.

A viewer is a position in the list; the texts are shared. The API server has confirmed with each
viewer's own token that it may list and watch what is shown, and does so again every minute. One
of these tokens reads; when its owner is gone or refused, that of another viewer does.
"""

import asyncio
import secrets
from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import starmap
from threading import Event, Lock
from time import monotonic

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from kubectl_sky.cluster import parallel
from kubectl_sky.errors import Forbidden, Interrupted, SkyError, Unauthorized, attempt
from kubectl_sky.observe.documents import TaskList
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.live import Changes, LiveTasks, Rights, review_rights
from kubectl_sky.tasks.paging import Position
from kubectl_sky_server.rest import problems
from kubectl_sky_server.rest.events import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    REVIEW_SECONDS,
    format_error,
    format_event,
)
from kubectl_sky_server.rest.identity import Caller
from kubectl_sky_server.rest.memory import Memory

_IDLE_SECONDS = 60.0  # without a viewer
_SETTLE_SECONDS = 2.0  # after a request of the caller that may change something
_TURN_SECONDS = 30.0  # that a list waits until another one is complete
_ROWS = 100  # tasks that are sent at a time
_MAX_CHUNK = 64 * 1024  # bytes of changes that are sent at a time
_MAX_GONE = 1000  # deleted tasks that are remembered for viewers who come back
_MAX_CALLERS = 10_000  # whose rights are kept

_TASK = "task"
_PIPELINE = "pipeline"

_EntryKey = tuple[str, str, str]  # task or pipeline, namespace, id
_Wake = Callable[[], object]


class _Entry(Struct, frozen=True):
    """A task or pipeline as JSON, and the version of the list that it made; empty if gone."""

    version: int
    text: bytes
    position: Position | None = None  # of a task
    pipeline: str = ""


class _Place(Struct):
    """What a viewer has been sent: the changes up to a version, and of a whole list some rows."""

    version: int
    walks: bool = False
    before: Position | None = None


class LiveList:
    """The tasks of a scope and their pipelines, for any number of viewers.

    `turn` is a lock that the list holds until it is complete.
    """

    def __init__(self, caller: Caller, scope: Scope, turn: Lock, memory: Memory) -> None:
        self.ended = Event()
        self._error: SkyError = Interrupted("nobody has looked for a while")
        self._scope = scope
        self._turn = turn
        self._memory = memory

        self._reader = caller.credential
        self._session = caller.session.in_namespace(caller.session.namespace)
        self._refused: set[bytes] = set()  # credentials that cannot read the list
        self._viewers: dict[_Wake, Caller] = {}
        self._seen_at = monotonic()

        self._lock = Lock()
        self._ready = False  # whether all existing tasks are known
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._oldest = 0  # viewers of an earlier version get the whole list
        self._entries: dict[_EntryKey, _Entry] = {}  # the one that changed last is the last
        self._order: list[Position] = []  # of the tasks, the newest last
        self._gone: dict[_EntryKey, None] = {}
        self._stages: dict[tuple[str, str], dict[str, TaskStatus]] = defaultdict(dict)

    @property
    def is_current(self) -> bool:
        return self._ready and not self.ended.is_set()

    def run(self) -> None:
        """Follow the tasks until nobody has looked for a while, or the cluster refuses."""
        _, error = attempt(self._follow)
        self._error = problems.conceal_bug(error) if error else self._error
        self.ended.set()
        self._wake()

    def page(self, caller: Caller, limit: int, before: Position | None) -> TaskList:
        """Return a page of the list; its documents are JSON already."""
        with self._lock:
            self._seen_at = monotonic()
            if not self._viewers:
                self._read_as(caller)
            return self._page(limit, before)[0]

    def _page(self, limit: int, before: Position | None) -> tuple[TaskList, Position | None]:
        """Return a page, and the position to continue from; None after the last page."""
        end = len(self._order) if before is None else bisect_left(self._order, before)
        start = max(end - limit, 0)
        chosen = self._order[start:end][::-1]
        tasks = [self._entries[_TASK, namespace, task_id] for _, task_id, namespace in chosen]
        named = dict.fromkeys(
            (_PIPELINE, position[2], task.pipeline)
            for position, task in zip(chosen, tasks, strict=True)
        )
        groups = [self._entries[key] for key in named if key in self._entries]
        last = chosen[-1] if start else None
        page = TaskList(
            tasks=[Raw(task.text) for task in tasks],  # type: ignore[misc]
            pipelines=[Raw(group.text) for group in groups if group.text],  # type: ignore[misc]
            next=last and ",".join(last),
        )
        return page, last

    async def view(
        self, caller: Caller, last_id: str | None, seconds: float
    ) -> AsyncIterator[bytes]:
        """Yield events: the whole list, unless the viewer has a version of it; then changes.

        Ends with an `error` when the list does.
        """
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        wake = partial(loop.call_soon_threadsafe, woken.set)
        deadline = loop.time() + seconds

        epoch, _, known = (last_id or "").partition("-")
        version = int(known) if epoch == self._epoch and known.isdecimal() else -1
        place = _Place(version)

        with self._lock:
            self._viewers[wake] = caller
            self._choose_reader()
        try:
            while loop.time() < deadline and not self.ended.is_set():
                woken.clear()
                if chunk := self._next(place):
                    yield chunk
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), KEEP_ALIVE_SECONDS)
                    continue
                yield KEEP_ALIVE
            if self.ended.is_set():
                yield format_error(self._error)
        finally:
            with self._lock:
                self._seen_at = monotonic()
                del self._viewers[wake]
                self._choose_reader()

    def _choose_reader(self) -> None:
        """Read with the token of a viewer, if there is one."""
        viewers = list(self._viewers.values())
        if viewers and self._reader not in {viewer.credential for viewer in viewers}:
            self._read_as(viewers[0])

    def _read_as(self, caller: Caller) -> None:
        self._reader = caller.credential
        self._session.act_as(caller.session)

    def _follow(self) -> None:
        while True:
            try:
                self._read()
                return
            except (Unauthorized, Forbidden):
                with self._lock:
                    self._refused.add(self._reader)
                    others = [
                        it for it in self._viewers.values() if it.credential not in self._refused
                    ]
                    if not others:
                        raise
                    self._read_as(others[0])

    def _read(self) -> None:
        """Follow the tasks with the current token; those that are known stay."""
        tasks = LiveTasks(self._session, self._scope)
        unseen = {(namespace, task_id) for _, task_id, namespace in self._order}
        with ExitStack() as until_complete:
            until_complete.enter_context(_waiting_for(self._turn))
            for changes in tasks.changes(self.ended):
                if changes:
                    unseen.difference_update((task.namespace, task.id) for task in changes.tasks)
                    self._apply(changes)
                if tasks.complete and unseen:
                    self._apply(Changes([], sorted(unseen)))
                    unseen.clear()
                if tasks.complete and not self._ready:
                    self._ready = True
                    self._wake()
                if tasks.complete:
                    until_complete.close()
                else:
                    self._memory.check()
                if changes and self._ready:
                    self._wake()
                if not self._viewers and monotonic() > self._seen_at + _IDLE_SECONDS:
                    return

    def _wake(self) -> None:
        for wake in list(self._viewers):
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                wake()

    def _apply(self, changes: Changes) -> None:
        # Not in the lock, for which the event loop waits.
        texts = [msgspec.json.encode(task.document) for task in changes.tasks]
        with self._lock:
            touched = set()
            for task, text in zip(changes.tasks, texts, strict=True):
                pipeline = task.member.id if task.member else ""
                place = task.namespace, pipeline
                if task.member:
                    self._stages[place][task.id] = task
                    touched.add(place)
                self._put((_TASK, task.namespace, task.id), text, task.position(), pipeline)

            for namespace, task_id in changes.gone:
                before = self._entries.get((_TASK, namespace, task_id))
                if before and before.pipeline:
                    self._stages[namespace, before.pipeline].pop(task_id, None)
                    touched.add((namespace, before.pipeline))
                self._put((_TASK, namespace, task_id), b"")

            for place in touched:
                tasks = self._stages[place].values()
                texts = [msgspec.json.encode(group.document) for group in pipelines(tasks)]
                if texts:
                    self._put((_PIPELINE, *place), texts[0])
                else:
                    self._put((_PIPELINE, *place), b"")
                    del self._stages[place]

    def _put(
        self, key: _EntryKey, text: bytes, position: Position | None = None, pipeline: str = ""
    ) -> None:
        before = self._entries.get(key)
        if text == (before.text if before else b""):
            return
        self._version += 1
        self._entries.pop(key, None)
        if before and before.position:
            del self._order[bisect_left(self._order, before.position)]
        if position:
            insort(self._order, position)
        self._entries[key] = _Entry(self._version, text, position, pipeline)
        self._gone.pop(key, None)
        if not text:
            self._gone[key] = None
            if len(self._gone) > _MAX_GONE:
                oldest = next(iter(self._gone))
                del self._gone[oldest]
                self._oldest = self._entries.pop(oldest).version

    def _next(self, place: _Place) -> bytes:
        """Return the next events for a viewer, whose place moves on; empty if it has all."""
        with self._lock:
            if not self._ready:
                return b""
            if place.version < self._oldest:
                place.version = self._version
                place.walks = True
                place.before = None
            if place.walks:
                return self._next_rows(place)
            return self._next_changes(place)

    def _next_rows(self, place: _Place) -> bytes:
        page, last = self._page(_ROWS, place.before)
        name = "more" if place.before else "tasks"
        event_id = "" if last else self._id(place)
        place.walks = last is not None
        place.before = last
        return format_event(name, msgspec.json.encode(replace(page, next=UNSET)), event_id)

    def _next_changes(self, place: _Place) -> bytes:
        """Return changes, the oldest first; the last one has the id of its version."""
        newer: list[tuple[_EntryKey, _Entry]] = []
        for key, entry in reversed(self._entries.items()):
            if entry.version <= place.version:
                break
            newer.append((key, entry))

        events: list[tuple[str, bytes]] = []
        size = 0
        while newer and size < _MAX_CHUNK:
            (word, namespace, name), entry = newer.pop()
            gone = msgspec.json.encode({"namespace": namespace, "id": name})
            events.append((word, entry.text) if entry.text else ("gone", gone))
            size += len(entry.text)
            place.version = entry.version
        if not events:
            return b""
        *others, last = events
        return b"".join([*starmap(format_event, others), format_event(*last, self._id(place))])

    def _id(self, place: _Place) -> str:
        return f"{self._epoch}-{place.version}"


@contextmanager
def _waiting_for(turn: Lock) -> Iterator[None]:
    """Hold a lock; one that is not free for long is not waited for."""
    is_held = turn.acquire(timeout=_TURN_SECONDS)
    try:
        yield
    finally:
        if is_held:
            turn.release()


class _Shared(Struct, frozen=True):
    """What all viewers of a list have in common; without complete rights, their token, too."""

    scope: Scope
    rights: Rights
    alone: bytes


class LiveLists:
    """The lists of all callers; the first ones are read one after the other."""

    def __init__(self, memory: Memory, clock: Callable[[], float] = monotonic) -> None:
        self._memory = memory
        self._clock = clock
        self._lock = Lock()
        self._turn = Lock()
        self._lists: dict[_Shared, LiveList] = {}
        # By the digest of a token and a scope; the one that was reviewed last is the last.
        self._reviews: OrderedDict[tuple[bytes, Scope], tuple[float, _Shared]] = OrderedDict()
        self._settled_at: OrderedDict[bytes, float] = OrderedDict()

    def open(self, caller: Caller, scope: Scope) -> LiveList:
        """Return the list of a scope, which is followed from now on. Raises SkyError."""
        key = self._review(caller, scope)
        with self._lock:
            self._lists = {key: it for key, it in self._lists.items() if not it.ended.is_set()}
            live = self._lists.get(key)
            if live is None:
                self._memory.check()
                live = LiveList(caller, scope, self._turn, self._memory)
                self._lists[key] = live
                parallel.run_daemon(live.run, name="list")
            return live

    def find(self, caller: Caller, scope: Scope) -> LiveList | None:
        """Return the list of a scope if it is followed, and current. Raises ClusterError."""
        is_settled = self._clock() >= self._settled_at.get(caller.credential, 0.0)
        if not is_settled or scope not in {key.scope for key in list(self._lists)}:
            return None
        live = self._lists.get(self._review(caller, scope))
        return live if live and live.is_current else None

    def settle(self, caller: Caller) -> None:
        """Let the lists of a caller, who may have changed something, catch up."""
        with self._lock:
            self._settled_at[caller.credential] = self._clock() + _SETTLE_SECONDS
            self._settled_at.move_to_end(caller.credential)
            while len(self._settled_at) > _MAX_CALLERS:
                self._settled_at.popitem(last=False)

    def confirm(self, caller: Caller, scope: Scope, live: LiveList) -> None:
        """Raise ClusterError if a viewer of a list may no longer see it."""
        key = self._review(caller, scope, fresh=True)
        if self._lists.get(key) is not live:
            raise Forbidden("the rights of the caller have changed")

    def _review(self, caller: Caller, scope: Scope, fresh: bool = False) -> _Shared:
        """Return what a caller may see, as the API server has said within a minute."""
        known = self._reviews.get((caller.credential, scope))
        if known and self._clock() < known[0] + REVIEW_SECONDS and not fresh:
            return known[1]

        begun_at = self._clock()
        rights = review_rights(caller.session, scope)
        alone = b"" if rights.complete else caller.credential
        shared = _Shared(scope, rights, alone)
        with self._lock:
            self._reviews[caller.credential, scope] = begun_at, shared
            self._reviews.move_to_end((caller.credential, scope))
            while len(self._reviews) > _MAX_CALLERS:
                self._reviews.popitem(last=False)
        return shared
