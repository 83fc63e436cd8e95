"""Streams: logs as text, and logs and states as Server-Sent Events that resume.

An action runs in a thread of its own and hands its output to the event loop by a bounded queue: a
slow reader slows the action down, and a reader that is gone stops it.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from threading import Event, Semaphore
from time import monotonic
from typing import Annotated, Any

import msgspec.json
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from msgspec import Struct
from pydantic import BaseModel, Field
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from kubectl_sky.cluster import access, parallel
from kubectl_sky.cluster.loglines import ResumePosition
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import Forbidden, Interrupted, TaskFailed, attempt
from kubectl_sky.observe.documents import Task
from kubectl_sky.observe.logs import Form, Lines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, pending
from kubectl_sky.tasks.follow import follow, show
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds, names
from kubectl_sky.words.documents import AnyJson, Document, as_json
from kubectl_sky_server.rest import problems
from kubectl_sky_server.rest.events import (
    EVENT_STREAM,
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    OpenStream,
    format_error,
    format_event,
)
from kubectl_sky_server.rest.identity import AnyCaller, AnyScope, Caller, Identities, Scopes
from kubectl_sky_server.rest.lists import LiveLists
from kubectl_sky_server.rest.problems import Rejected
from kubectl_sky_server.rest.tasks import TaskId
from kubectl_sky_server.rest.views import view
from kubectl_sky_server.rest.windows import Window

router = APIRouter(tags=["streams"])

_POLL_SECONDS = 0.5
_MAX_BLOCK_BYTES = 64 * 1024
_MAX_QUEUED = 8  # blocks of output, of about 64 KiB each
_MAX_CURSOR = 60_000  # characters
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}

Put = Callable[[bytes], None]


class Gone(Interrupted):
    """The reader of a stream is gone, or its time is over."""


class Bridge:
    """A bounded queue from a thread to the event loop."""

    def __init__(self, seconds: float) -> None:
        self.stop = Event()
        self._loop = asyncio.get_running_loop()
        self._space = Semaphore(_MAX_QUEUED)
        self._items: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._deadline = monotonic() + seconds

    def put(self, block: bytes) -> None:
        """Queue a block; wait for space. Raises Gone."""
        while not self._space.acquire(timeout=_POLL_SECONDS):
            self._check()
        self._check()
        self._loop.call_soon_threadsafe(self._items.put_nowait, block)

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            self._loop.call_soon_threadsafe(self._items.put_nowait, None)

    async def blocks(self, keep_alive: bytes) -> AsyncIterator[bytes]:
        """Yield the blocks; `keep_alive` when there is none for a while."""
        while monotonic() < self._deadline:
            try:
                block = await asyncio.wait_for(self._items.get(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                if keep_alive:
                    yield keep_alive
                continue
            if block is None:
                return
            self._space.release()
            yield block

    def _check(self) -> None:
        if self.stop.is_set() or monotonic() > self._deadline:
            raise Gone("the reader is gone")


Produce = Callable[[Put, Event], None]


class Streamed(OpenStream):
    """The output of an action, as it comes, as long as the caller `may_read` it."""

    def __init__(
        self,
        caller: Caller,
        request: Request,
        produce: Produce,
        media_type: str,
        may_read: Callable[[], bool],
    ) -> None:
        identities: Identities = request.app.state.identities

        def confirm() -> None:
            identities.confirm(caller)
            if not may_read():
                raise Forbidden("the rights of the caller have changed")

        super().__init__(caller, request, media_type, confirm)
        self._produce = produce

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Run the action in a thread and send what it puts."""
        bridge = Bridge(self.seconds)
        is_events = self.media_type == EVENT_STREAM
        self.body_iterator = bridge.blocks(KEEP_ALIVE if is_events else b"")
        try:
            parallel.run_daemon(self._run, bridge, is_events, name="stream")
            await super().__call__(scope, receive, send)
        finally:
            bridge.stop.set()

    def _run(self, bridge: Bridge, is_events: bool) -> None:
        try:
            _, error = attempt(lambda: self._produce(bridge.put, bridge.stop))
            if error and not isinstance(error, Interrupted):
                shown = problems.conceal_bug(error)
                text = format_error(shown) if is_events else f"error: {shown.what}\n".encode()
                with suppress(Interrupted):
                    bridge.put(text)
        finally:
            bridge.close()


def may_read_logs(caller: Caller, namespace: str) -> bool:
    return access.may(caller.session, "get", kinds.POD, "log", namespace)


def _event(name: str, data: object, event_id: str = "") -> bytes:
    return format_event(name, msgspec.json.encode(data), event_id)


END = _event("end", {})


class Cursor(Struct, frozen=True):
    """The positions in the logs of pods, by a hash of the stream's name."""

    positions: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        try:
            if len(text) > _MAX_CURSOR:
                raise ValueError
            positions = dict(entry.split(":", 1) for entry in text.split(",") if entry)
            for position in positions.values():
                ResumePosition.decode(position)
        except ValueError:
            raise Rejected(400, "Last-Event-ID: not an id of this stream") from None
        return cls(positions)

    def by_stream(self, pods: Iterable[str]) -> dict[str, str]:
        """Return the positions in the logs of the tasks' containers of these pods."""
        streams = map(names.log_stream, pods)
        return {it: self.positions[_key(it)] for it in streams if _key(it) in self.positions}


def _key(stream: str) -> str:
    return hashlib.sha256(stream.encode()).hexdigest()[:10]


class EventOutput(UI):
    """Log lines and notes as events; the id of each is the position in all logs after it."""

    def __init__(self, put: Put, options: LogOptions) -> None:
        positions = options.positions
        self._put = put
        self._is_partial = options.is_partial
        self._positions = {it: ResumePosition.decode(text) for it, text in positions.items()}
        self._ids = {it: f"{_key(it)}:{text}" for it, text in positions.items()}

    def logs(self, lines: Lines, final_newline: bool) -> None:
        """Send lines, which begin with their timestamps."""
        events: list[bytes] = []
        size = 0

        for origin, line in lines:
            new = ResumePosition(partial=self._is_partial)
            position = self._positions.setdefault(origin.stream, new)
            position.advance([line])
            self._ids[origin.stream] = f"{_key(origin.stream)}:{position.encode()}"

            time, _, text = line.decode(errors="replace").partition(" ")
            data = {"task": origin.task, "rank": origin.rank, "node": origin.title}
            data |= {"time": time, "text": text}
            events.append(_event("line", data, ",".join(self._ids.values())))
            size += len(events[-1])

            if size > _MAX_BLOCK_BYTES:  # with many pods, ids are longer than lines
                self._put(b"".join(events))
                events = []
                size = 0

        if events:
            self._put(b"".join(events))

    def note(self, text: str) -> None:
        self._put(_event("note", {"text": text}))

    def notes(self, items: Iterable[object]) -> None:
        for item in items:
            self.note(str(item))


class TextOutput(UI):
    """Log lines as text, with the node's name if there are several nodes."""

    def __init__(self, put: Put, timestamps: bool) -> None:
        self._put = put
        self._form = Form(stamped=timestamps)

    def logs(self, lines: Lines, final_newline: bool) -> None:
        self._put(self._form.block(lines, final_newline))


class LogQuery(BaseModel):
    """Which lines of a log."""

    follow: bool = Field(True, description="Follow the logs until every node has finished.")
    rank: list[int] = Field([], max_length=1000, description="Only these ranks; repeatable.")
    tail: int | None = Field(None, ge=0, le=1_000_000, description="Only the last lines.")
    since: str | None = Field(
        None, pattern="^[0-9]{1,6}[smhd]?$", description="Only lines of the last 90s, 5m, 2h."
    )
    timestamps: bool = Field(False, description="Begin each line with its time.")
    by_node: bool = Field(False, description="Existing lines node by node, not in order of time.")

    @property
    def since_seconds(self) -> int | None:
        match = re.fullmatch("([0-9]+)([a-z]?)", self.since or "")
        return max(int(match[1]) * _UNITS[match[2]], 1) if match else None


LOGS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The lines, as they are written. As events: `line` with an id that"
        " `Last-Event-ID` resumes from, `note`, `error`, and `end`.",
        "content": {"text/plain": {"schema": {"type": "string"}}, EVENT_STREAM: {}},
    }
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-Sent Events.", "content": {EVENT_STREAM: {}}}
}

LastEventId = Annotated[str | None, Header(description="The id of the last event received.")]


@router.get("/tasks/{task_id}/logs", response_class=StreamingResponse, responses=LOGS)
def logs(
    request: Request,
    caller: AnyCaller,
    scope: AnyScope,
    task_id: TaskId,
    query: Annotated[LogQuery, Query()],
    last_event_id: LastEventId = None,
) -> Streamed:
    """Stream the logs of a task's nodes: `node-1 | line` for several nodes.

    `Accept: text/event-stream` gives events that resume.
    """
    is_events = EVENT_STREAM in request.headers.get("accept", "")
    cursor = Cursor.parse(last_event_id or "") if is_events else Cursor({})
    target = find.get(caller.session, scope, task_id)
    pods = [node.pod for task in find.tasks_of(target) for node in task.nodes if node.pod]
    options = LogOptions(
        follow=query.follow,
        tail=query.tail,
        since_seconds=query.since_seconds,
        timestamps=is_events or query.timestamps,
        positions=cursor.by_stream(pods),
    )

    def produce(put: Put, stop: Event) -> None:
        output = EventOutput(put, options) if is_events else TextOutput(put, query.timestamps)
        selected = LogRequest(options, ranks=query.rank, by_node=query.by_node, stop=stop)
        end: dict[str, object] = {"state": "completed"}
        try:
            if query.follow:
                follow(caller.session, target, selected, output)
            else:
                show(caller.session, target, selected, output)
                end = {"state": str(target.state)}
        except TaskFailed as error:
            end = {"state": "failed", "message": error.what}
        if is_events:
            put(_event("end", end))

    media_type = EVENT_STREAM if is_events else "text/plain"
    may_read = partial(may_read_logs, caller, target.namespace)
    return Streamed(caller, request, produce, media_type, may_read)


def _statuses(caller: Caller, task: TaskStatus, stop: Event) -> Iterator[Task]:
    """Yield the status of a task after each change, until it has finished."""
    for update in pending.watch_task(caller.session, task, stop):
        if update:
            yield update.document
            if update.finished:
                return


def _changes(documents: Iterator[Document], last_id: str | None) -> Iterator[tuple[AnyJson, str]]:
    """Yield each document that differs from the one before, with a hash of it."""
    for document in documents:
        value = as_json(document)
        text = json.dumps(value, sort_keys=True)
        event_id = hashlib.sha256(text.encode()).hexdigest()[:16]
        if event_id != last_id:
            yield value, event_id
        last_id = event_id


@router.get("/tasks/events", response_class=StreamingResponse, responses=_EVENTS)
def task_list_events(
    request: Request,
    caller: AnyCaller,
    scopes: Scopes,
    window: Annotated[Window, Query()],
    last_event_id: LastEventId = None,
) -> OpenStream:
    """Stream the list of tasks: `tasks` and then `more` with all of it, newest first.

    Then what changes: `task` and `pipeline` have the new state of one, `gone` the namespace and id
    of a deleted one. With `rows`, stream a part of the list: `rows` has the `order` of its tasks,
    those that have changed, and the `counts` of all that match, by status.
    """
    if len(scopes) > 1 and not window.rows:
        raise Rejected(400, "the events of several namespaces need rows")
    lists: LiveLists = request.app.state.lists
    followed = [lists.open(caller, scope) for scope in scopes]

    def confirm() -> None:
        for scope, live in zip(scopes, followed, strict=True):
            lists.confirm(caller, scope, live)

    stream = OpenStream(caller, request, confirm=confirm)
    if window.rows:
        stream.body_iterator = view(followed, caller, window, stream.seconds)
    else:
        stream.body_iterator = followed[0].view(caller, last_event_id, stream.seconds)
    return stream


@router.get("/tasks/{task_id}/events", response_class=StreamingResponse, responses=_EVENTS)
def task_events(
    request: Request,
    caller: AnyCaller,
    scope: AnyScope,
    task_id: TaskId,
    last_event_id: LastEventId = None,
) -> Streamed:
    """Stream the status of a task after each change, until it has finished."""
    task = find.get_task(caller.session, scope, task_id)

    def produce(put: Put, stop: Event) -> None:
        for data, event_id in _changes(_statuses(caller, task, stop), last_event_id):
            put(_event("task", data, event_id))
        put(END)

    def may_read() -> bool:
        read = (task.workload.kind, kinds.POD)
        return all(access.may(caller.session, "list", kind, "", task.namespace) for kind in read)

    return Streamed(caller, request, produce, EVENT_STREAM, may_read)
