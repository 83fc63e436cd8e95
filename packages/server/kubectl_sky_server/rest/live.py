"""One watch for all who look at the same tasks with the same token.

A viewer remembers only which version of the list it has sent; the texts are shared. The rights are
the caller's: another token has another watch, and one that is refused ends for all its viewers.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from threading import Event, Lock
from time import monotonic

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from kubectl_sky.cluster import parallel
from kubectl_sky.errors import Interrupted, SkyError, attempt
from kubectl_sky.observe.documents import TaskList
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import paging
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
from kubectl_sky_server.rest.problems import Rejected

_IDLE_SECONDS = 60.0  # without a viewer
_SETTLE_SECONDS = 2.0  # after a request of the caller that may change something
_MAX_CHUNK = 64 * 1024  # bytes sent at a time: a slow reader holds back the rest
_MAX_GONE = 1000  # deleted tasks that are remembered for viewers who come back
_RETRY_SECONDS = 30

_TASK = "task"
_PIPELINE = "pipeline"

_Key = tuple[str, str, str]  # task or pipeline, namespace, id


class _Entry(Struct, frozen=True):
    """A task or pipeline as JSON, and the version of the list that it changed in; empty if gone."""

    version: int
    text: bytes
    position: Position = ("", "", "")
    pipeline: str = ""


class LiveList:
    """The tasks of a scope and their pipelines, for any number of viewers.

    `check_room` raises Rejected if all lists together are too large.
    """

    def __init__(self, caller: Caller, scope: Scope, check_room: Callable[[], None]) -> None:
        self.ended = Event()
        self.fresh_at = 0.0  # before, a change of the caller may be missing
        self._check_room = check_room
        self._error: SkyError = Interrupted("nobody has looked for a while")
        self._tasks = LiveTasks(caller.session, scope)

        self._lock = Lock()
        self._ready = False  # whether all existing tasks are known
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._oldest = 0  # viewers of an earlier version get the whole list
        self._entries: dict[_Key, _Entry] = {}  # the one that changed last is the last
        self._gone: dict[_Key, None] = {}
        self._stages: dict[tuple[str, str], dict[str, TaskStatus]] = defaultdict(dict)
        self._text_size = 0

        self._blocks: dict[int, bytes] = {}  # what viewers of a version have not seen
        self._viewers: set[Callable[[], object]] = set()
        self._unread: dict[Callable[[], object], bytes] = {}  # what viewers are being sent
        self._seen_at = monotonic()

    @property
    def size(self) -> int:
        """The bytes of what is kept, for viewers that are slow to read, too."""
        blocks = {id(block): len(block) for block in list(self._unread.values())}
        return self._tasks.size + self._text_size + sum(blocks.values())

    @property
    def is_current(self) -> bool:
        return self._ready and monotonic() >= self.fresh_at and not self.ended.is_set()

    def run(self) -> None:
        """Follow the tasks until nobody has looked for a while, or the cluster refuses."""
        _, error = attempt(self._follow)
        self.close(problems.conceal_bug(error) if error else self._error)

    def close(self, error: SkyError) -> None:
        """End the list for all viewers."""
        self._error = error
        self.ended.set()
        self._wake()

    def page(self, limit: int, before: Position | None) -> TaskList:
        """Return a page of the list; its documents are JSON already."""
        with self._lock:
            self._seen_at = monotonic()
            return self._page(limit, before)

    def _page(self, limit: int, before: Position | None) -> TaskList:
        current = [(key, entry) for key, entry in self._entries.items() if entry.text]
        tasks = {entry.position: entry for (word, *_), entry in current if word == _TASK}
        chosen, last = paging.cut(sorted(tasks, reverse=True), limit, before)
        named = {(position[2], tasks[position].pipeline) for position in chosen}
        groups = [entry for (word, *place), entry in current if (*place,) in named]
        return TaskList(
            tasks=[Raw(tasks[position].text) for position in chosen],  # type: ignore[misc]
            pipelines=[Raw(entry.text) for entry in groups],  # type: ignore[misc]
            next=last and ",".join(last),
        )

    async def view(self, last_id: str | None, seconds: float) -> AsyncIterator[bytes]:
        """Yield events: the whole list, unless the viewer has a version of it; then changes.

        Ends with an `error` when the list does.
        """
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()

        epoch, _, known = (last_id or "").partition("-")
        version = int(known) if epoch == self._epoch and known.isdecimal() else -1
        wake = partial(loop.call_soon_threadsafe, woken.set)
        deadline = loop.time() + seconds

        self._viewers.add(wake)
        try:
            while loop.time() < deadline and not self.ended.is_set():
                woken.clear()
                version, block = self._since(version)
                self._unread[wake] = block
                for start in range(0, len(block), _MAX_CHUNK):
                    yield block[start : start + _MAX_CHUNK]
                del self._unread[wake], block
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), KEEP_ALIVE_SECONDS)
                    continue
                yield KEEP_ALIVE
            if self.ended.is_set():
                yield format_error(self._error)
        finally:
            self._viewers.discard(wake)
            self._unread.pop(wake, None)
            self._seen_at = monotonic()

    def _follow(self) -> None:
        for changes in self._tasks.changes(self.ended):
            if changes:
                self._apply(changes)
            if changes or self._tasks.complete != self._ready:
                self._ready = self._tasks.complete
                self._check_room()
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
            self._version += 1
            self._blocks.clear()
            touched = set()
            for task, text in zip(changes.tasks, texts, strict=True):
                pipeline = task.member.id if task.member else ""
                place = task.namespace, pipeline
                if task.member:
                    self._stages[place][task.id] = task
                    touched.add(place)
                key = _TASK, task.namespace, task.id
                self._put(key, text, task.position(), pipeline)

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
        self, key: _Key, text: bytes, position: Position = ("", "", ""), pipeline: str = ""
    ) -> None:
        before = self._entries.get(key)
        if text == (before.text if before else b""):
            return
        self._text_size += len(text) - len(before.text if before else b"")
        self._entries.pop(key, None)
        self._entries[key] = _Entry(self._version, text, position, pipeline)
        self._gone.pop(key, None)
        if not text:
            self._gone[key] = None
            if len(self._gone) > _MAX_GONE:
                oldest = next(iter(self._gone))
                del self._gone[oldest]
                self._oldest = self._entries.pop(oldest).version

    def _since(self, version: int) -> tuple[int, bytes]:
        """Return the current version, and the events for a viewer that has another."""
        with self._lock:
            if not self._ready or version == self._version:
                return version, b""
            block = self._blocks.get(version)
            if block is None:
                block = self._blocks[version] = self._events(version)
            return self._version, block

    def _events(self, version: int) -> bytes:
        """Return the events since a version; the last one has the id of the current version."""
        events = []
        if version < self._oldest:
            whole = replace(self._page(len(self._entries), None), next=UNSET)
            events.append(format_event("tasks", msgspec.json.encode(whole)))
        else:
            for (word, namespace, name), entry in reversed(self._entries.items()):
                if entry.version <= version:
                    break
                gone = msgspec.json.encode({"namespace": namespace, "id": name})
                event = word if entry.text else "gone"
                events.append(format_event(event, entry.text or gone))
        *others, last = reversed(events) if events else [b""]
        identity = f"id: {self._epoch}-{self._version}\n".encode()
        return b"".join([*others, identity, last]) if last else b""


class LiveLists:
    """The lists of all callers; together they keep at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._lists: dict[tuple[bytes, Scope], LiveList] = {}

    def open(self, caller: Caller, scope: Scope) -> LiveList:
        """Return the list of a scope, which is followed from now on. Raises Rejected."""
        self._check_room()
        with self._lock:
            self._lists = {key: it for key, it in self._lists.items() if not it.ended.is_set()}
            key = caller.credential, scope
            live = self._lists.get(key)
            if live is None:
                live = self._lists[key] = LiveList(caller, scope, self._check_room)
                parallel.run_daemon(live.run, name="list")
            return live

    def find(self, caller: Caller, scope: Scope) -> LiveList | None:
        """Return the list of a scope if it is followed, and current."""
        live = self._lists.get((caller.credential, scope))
        return live if live and live.is_current else None

    def settle(self, caller: Caller) -> None:
        """Let the lists of a caller, who may have changed something, catch up."""
        with self._lock:
            for (credential, _), live in self._lists.items():
                if credential == caller.credential:
                    live.fresh_at = monotonic() + _SETTLE_SECONDS

    def _check_room(self) -> None:
        size = sum(live.size for live in list(self._lists.values()))
        if size > self._limit:
            raise Rejected(
                503,
                f"the lists of tasks that are open need more than {self._limit >> 20} MiB",
                "close pages that list all users or namespaces, or try again later",
                _RETRY_SECONDS,
            )
