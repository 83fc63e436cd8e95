"""One watch for all who look at the same tasks, and may read the same.

A viewer is a position in the list; the texts are shared. The token of one viewer reads; when its
owner is gone or refused, that of another one does.
"""

import asyncio
import secrets
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import starmap
from threading import Event, Lock
from time import monotonic

import msgspec
from anyio import CapacityLimiter, to_thread
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from kubectl_sky.errors import Forbidden, Interrupted, SkyError, Unauthorized, attempt
from kubectl_sky.observe.documents import TaskList
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.live import Changes, LiveTasks
from kubectl_sky.tasks.paging import Position
from kubectl_sky_server.rest import problems
from kubectl_sky_server.rest.events import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    format_error,
    format_event,
)
from kubectl_sky_server.rest.identity import Caller
from kubectl_sky_server.rest.memory import Memory
from kubectl_sky_server.rest.windows import Found, Key, Row, Window, find

_IDLE_SECONDS = 60.0  # without a viewer
_TURN_SECONDS = 30.0  # that a list waits until another one is complete
_ROWS = 100  # tasks that are sent at a time
_MAX_CHUNK = 64 * 1024  # bytes of changes that are sent at a time
_MAX_GONE = 1000  # deleted tasks that are remembered for viewers who come back
_MAX_WINDOWS = 100  # whose rows are known, of a list
_WINDOW_TIME = timedelta(minutes=1)  # in which a task does not become too old for a window

_TASK = "task"
PIPELINE = "pipeline"

Wake = Callable[[], object]


class Entry(Struct, frozen=True):
    """A task or pipeline as JSON, and the version of the list that it made; empty if gone."""

    version: int
    text: bytes
    position: Position | None = None  # of a task
    pipeline: str = ""
    row: Row | None = None


_GONE = Entry(0, b"")


class _Place(Struct):
    """What a viewer of a whole list has been sent: the changes up to a version.

    While it `walks`, only some rows.
    """

    version: int
    walks: bool = False
    before: Position | None = None


class Finding(Struct, frozen=True):
    """The tasks of a window in a version of a list."""

    version: int
    found: Found
    at: datetime


def list_groups(tasks: Mapping[Key, Entry], entries: Mapping[Key, Entry]) -> dict[Key, Entry]:
    """Return the pipelines and groups of tasks."""
    named = {(PIPELINE, key[1], task.pipeline) for key, task in tasks.items()}
    return {key: entries[key] for key in named if key in entries}


class LiveList:
    """The tasks of a scope and their pipelines, for any number of viewers.

    `turn` is a lock that the list holds until it is complete.
    """

    def __init__(self, caller: Caller, scope: Scope, turn: Lock, memory: Memory) -> None:
        self.ended = Event()
        self.ready = False  # whether all existing tasks are known
        self.error: SkyError = Interrupted("nobody has looked for a while")
        self._scope = scope
        self._turn = turn
        self._memory = memory

        self._reader = caller.credential
        self._session = caller.session.in_namespace(caller.session.namespace)
        self._refused: set[bytes] = set()  # credentials that cannot read the list
        self._viewers: dict[Wake, Caller] = {}
        self._seen_at = monotonic()

        self._lock = Lock()
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._oldest = 0  # viewers of an earlier version get the whole list
        self._entries: dict[Key, Entry] = {}  # the one that changed last is the last
        self._order: list[Position] = []  # of the tasks, the newest last
        self._gone: dict[Key, None] = {}
        self._findings: dict[Window, Finding] = {}
        self._finding = Lock()
        self._finders = CapacityLimiter(1)
        self._stages: dict[tuple[str, str], dict[str, TaskStatus]] = defaultdict(dict)

    @property
    def is_current(self) -> bool:
        return self.ready and not self.ended.is_set()

    def run(self) -> None:
        """Follow the tasks until nobody has looked for a while, or the cluster refuses."""
        _, error = attempt(self._follow)
        self.error = problems.conceal_bug(error) if error else self.error
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
            (PIPELINE, position[2], task.pipeline)
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
        epoch, _, known = (last_id or "").partition("-")
        version = int(known) if epoch == self._epoch and known.isdecimal() else -1
        place = _Place(version)
        async for chunk in follow([self], caller, partial(self._next, place), seconds):
            yield chunk

    @contextmanager
    def viewed(self, caller: Caller, wake: Wake) -> Iterator[None]:
        """Call `wake` after each change; the token of the caller may read the list."""
        with self._lock:
            self._viewers[wake] = caller
            self._choose_reader()
        try:
            yield
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
            reader = self._reader
            try:
                self._read()
                return
            except (Unauthorized, Forbidden):
                with self._lock:
                    if self._reader != reader:
                        continue  # it was asked with the token of a viewer who has left
                    self._refused.add(reader)
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
                if tasks.complete and not self.ready:
                    self.ready = True
                    self._wake()
                if tasks.complete:
                    until_complete.close()
                else:
                    self._memory.check()
                if changes and self.ready:
                    self._wake()
                if not self._viewers and monotonic() > self._seen_at + _IDLE_SECONDS:
                    return

    def _wake(self) -> None:
        for wake in list(self._viewers):
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                wake()

    def _apply(self, changes: Changes) -> None:
        # Not in the lock, for which the event loop waits.
        documents = [task.document for task in changes.tasks]
        texts = [msgspec.json.encode(document) for document in documents]
        rows = list(map(Row.of, documents))
        with self._lock:
            touched = set()
            for task, text, row in zip(changes.tasks, texts, rows, strict=True):
                pipeline = task.member.id if task.member else ""
                place = task.namespace, pipeline
                if task.member:
                    self._stages[place][task.id] = task
                    touched.add(place)
                key = _TASK, task.namespace, task.id
                self._put(key, Entry(0, text, task.position(), pipeline, row))

            for namespace, task_id in changes.gone:
                before = self._entries.get((_TASK, namespace, task_id))
                if before and before.pipeline:
                    self._stages[namespace, before.pipeline].pop(task_id, None)
                    touched.add((namespace, before.pipeline))
                self._put((_TASK, namespace, task_id), _GONE)

            for place in touched:
                tasks = self._stages[place].values()
                texts = [msgspec.json.encode(group.document) for group in pipelines(tasks)]
                if texts:
                    self._put((PIPELINE, *place), Entry(0, texts[0]))
                else:
                    self._put((PIPELINE, *place), _GONE)
                    del self._stages[place]

    def _put(self, key: Key, entry: Entry) -> None:
        before = self._entries.get(key, _GONE)
        if entry.text == before.text:
            return
        self._version += 1
        self._entries.pop(key, None)
        self._entries[key] = replace(entry, version=self._version)
        if before.position:
            del self._order[bisect_left(self._order, before.position)]
        if entry.position:
            insort(self._order, entry.position)
        self._gone.pop(key, None)
        if not entry.text:
            self._gone[key] = None
            if len(self._gone) > _MAX_GONE:
                oldest = next(iter(self._gone))
                del self._gone[oldest]
                self._oldest = self._entries.pop(oldest).version

    async def _next(self, place: _Place) -> bytes:
        """Return the next events for a viewer, whose place moves on; empty if it has all."""
        with self._lock:
            if not self.ready:
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
        newer: list[tuple[Key, Entry]] = []
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

    async def find(self, window: Window) -> Finding:
        """Find the tasks of a window, once for all viewers of it."""
        known = self._findings.get(window)
        if known and self._is_current(known, window):
            return known
        return await to_thread.run_sync(self._find, window, limiter=self._finders)

    def entries(self, keys: Iterable[Key]) -> dict[Key, Entry]:
        """Return the tasks that still exist, and their pipelines."""
        with self._lock:
            tasks = {key: self._entries[key] for key in keys if key in self._entries}
            return tasks | list_groups(tasks, self._entries)

    def _find(self, window: Window) -> Finding:
        with self._finding:
            known = self._findings.get(window)
            if known and self._is_current(known, window):
                return known
            with self._lock:
                version = self._version
                keys = [(_TASK, namespace, task_id) for _, task_id, namespace in self._order]
                entries = [self._entries[key] for key in keys]
            rows = [
                (key, entry.row)
                for key, entry in zip(reversed(keys), reversed(entries), strict=True)
                if entry.row
            ]
            finding = Finding(version, find(window, rows), datetime.now(UTC))
            self._findings[window] = finding
            while len(self._findings) > _MAX_WINDOWS:
                del self._findings[next(iter(self._findings))]
            return finding

    def _is_current(self, finding: Finding, window: Window) -> bool:
        is_old = window.since and datetime.now(UTC) > finding.at + _WINDOW_TIME
        return finding.version == self._version and not is_old

    def _id(self, place: _Place) -> str:
        return f"{self._epoch}-{place.version}"


async def follow(
    lists: Sequence[LiveList], caller: Caller, read: Callable[[], Awaitable[bytes]], seconds: float
) -> AsyncIterator[bytes]:
    """Yield what `read` returns after each change of one of the lists.

    Ends with an `error` when one of them does.
    """
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()
    wake = partial(loop.call_soon_threadsafe, woken.set)
    deadline = loop.time() + seconds

    with ExitStack() as viewing:
        for live in lists:
            viewing.enter_context(live.viewed(caller, wake))
        while loop.time() < deadline and not any(live.ended.is_set() for live in lists):
            woken.clear()
            if chunk := await read():
                yield chunk
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), KEEP_ALIVE_SECONDS)
                continue
            yield KEEP_ALIVE
        ended = [live for live in lists if live.ended.is_set()]
        if ended:
            yield format_error(ended[0].error)


@contextmanager
def _waiting_for(turn: Lock) -> Iterator[None]:
    """Hold a lock; one that is not free for long is not waited for."""
    is_held = turn.acquire(timeout=_TURN_SECONDS)
    try:
        yield
    finally:
        if is_held:
            turn.release()
