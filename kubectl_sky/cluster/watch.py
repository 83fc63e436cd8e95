"""Watch objects: first the existing ones, then every change, without a gap."""

import queue
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kubectl_sky.cluster import errors, objects, parallel
from kubectl_sky.cluster.backoff import Backoff
from kubectl_sky.cluster.encoding import decode
from kubectl_sky.cluster.errors import RequestInfo
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.transport import Stream
from kubectl_sky.errors import ClusterError, Expired, Forbidden, NotServed, Unreachable
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.objects import NO_OBJECT, Fields, Object, Texts

T = TypeVar("T")

_POLL_INTERVAL = 0.5
_MAX_QUEUED_EVENTS = 1000  # events buffered for the caller
_SERVER_TIMEOUT_SECONDS = 290  # the server then ends the request, and it is sent again
_SILENCE_SECONDS = 150.0  # bookmarks come every minute: a longer silence is a dead connection
_FIRST_SERVER_ERROR = 500
# One request for the existing objects and the changes, as in client-go. Kubernetes 1.32 and 1.34 or
# newer have it; others refuse it, and get a list and a watch.
_INITIAL_EVENTS = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"  # annotation of the bookmark
MAX_EVENT_BYTES = 16 * 1024 * 1024  # bytes; etcd takes objects of 1.5 MiB


class Change(StrEnum):
    """The type of a change. SYNCED, without object, ends the initial list."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNCED = "SYNCED"


class WatchEvent(Struct, frozen=True):
    """A change with the current object, or the last known one if it was deleted."""

    type: Change
    kind: Kind
    object: Object = NO_OBJECT


Events = queue.Queue[WatchEvent | ClusterError]
Trim = Callable[[Any], Object]


class _Type(Fields, frozen=True, kw_only=True):
    """A line of a watch, of which the type says what its object is."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class _Line(Fields, Generic[T], frozen=True, kw_only=True):
    """A line of a watch."""

    object: T


class _BookmarkMetadata(Fields, frozen=True, kw_only=True):
    """What a bookmark says: how far the watch has come."""

    annotations: Texts = field(default_factory=dict)
    resource_version: str


class _Bookmark(Fields, frozen=True, kw_only=True):
    """A bookmark."""

    metadata: _BookmarkMetadata


class ObjectSelection(Struct, frozen=True):
    """What to watch: kinds in a namespace (None: all) with a label selector.

    An `optional` kind that is not served, or forbidden to this user, has no objects. It is an error
    once some are known.
    """

    kinds: Sequence[ReadKind[Object]]
    namespace: str | None
    label_selector: str = ""
    optional: Collection[Kind] = ()


def watch_kinds(
    session: Session, selection: ObjectSelection, stop: Event | None = None
) -> Generator[WatchEvent | None]:
    """Yield existing objects as ADDED, then SYNCED for each kind, then changes; None when idle.

    None comes twice a second, so that a caller can show progress and notice Ctrl-C. After a lost
    connection the watch resumes at the last resourceVersion. If that has expired, objects are
    read again and only differences are yielded (DELETED for missing objects), then SYNCED.
    The iterator ends soon after `stop` is set. Raises ClusterError when the server refuses the
    request, or is unreachable for `backoff.TIMEOUT_SECONDS`.
    """
    events: Events = queue.Queue(_MAX_QUEUED_EVENTS)
    yield from _changes(_watchers(session, selection, events), events, stop)


def watch_forever(
    session: Session, selection: ObjectSelection, stop: Event, trim: Trim | None = None
) -> Iterator[WatchEvent | None]:
    """Yield what `watch_kinds` yields until `stop` is set: an outage never ends it.

    `trim` returns what is kept of an object: all existing ones are in memory, to tell which were
    deleted meanwhile. Raises ClusterError when the server refuses the request.
    """
    events: Events = queue.Queue(_MAX_QUEUED_EVENTS)
    watchers = _watchers(session, selection, events)
    for watcher in watchers:
        watcher.backoff = Backoff(watcher.stopped, inf)
        watcher.trim = trim or watcher.trim
    yield from _changes(watchers, events, stop)


class SharedWatch:
    """One watch per kind for the objects of several values of a label, until `stop` is set.

    It begins when the first value is read. `changes` of each value yields what `watch_kinds` yields
    for it alone. Each value has to be read: the changes of one that is not hold up the others.
    """

    def __init__(
        self,
        session: Session,
        kinds: Sequence[ReadKind[Object]],
        namespace: str | None,
        label: str,
        values: Sequence[str],
        stop: Event,
    ) -> None:
        self._label = label
        self._stop = stop
        self._events: dict[str, Events] = {
            value: queue.Queue(_MAX_QUEUED_EVENTS) for value in values
        }
        self._value_of: dict[str, str] = {}  # by the uid of an object
        selection = ObjectSelection(kinds, namespace, f"{label} in ({','.join(values)})")
        self._watch = watch_kinds(session, selection, stop)
        self._thread: Thread | None = None
        self._lock = Lock()

    def changes(self, value: str, stop: Event | None = None) -> Iterator[WatchEvent | None]:
        """Yield the changes of a value; None when idle. Raises ClusterError."""
        with self._lock:
            thread = self._thread = self._thread or parallel.run_daemon(self._run, name="watch all")
        try:
            while not (self._stop.is_set() or (stop and stop.is_set())):
                alive = thread.is_alive()
                event = _next_event(self._events[value])
                if not (event or alive or self._stop.is_set()):
                    raise RuntimeError("a thread that watches has died")
                yield event
        finally:
            del self._events[value]

    def _run(self) -> None:
        try:
            for change in self._watch:
                if not self._events:
                    return
                if change:
                    self._pass_on(change)
        except ClusterError as error:
            self._put(error, *self._events)
        finally:
            self._watch.close()

    def _pass_on(self, change: WatchEvent) -> None:
        if change.type is Change.SYNCED:
            self._put(change, *self._events)
            return
        metadata = change.object.metadata
        value = metadata.labels[self._label]
        uid = metadata.uid
        known = self._value_of.pop(uid, value)
        if known != value:  # for its former task, an object without the label is deleted
            self._put(replace(change, type=Change.DELETED), known)
        if change.type is not Change.DELETED:
            self._value_of[uid] = value
        self._put(change, value)

    def _put(self, item: WatchEvent | ClusterError, *values: str) -> None:
        for value in values:
            while value in self._events and not self._stop.is_set():
                with suppress(queue.Full, KeyError):
                    self._events[value].put(item, timeout=_POLL_INTERVAL)
                    break


def _watchers(session: Session, selection: ObjectSelection, events: Events) -> "list[_KindWatcher]":
    return [_KindWatcher(session, kind, selection, events) for kind in selection.kinds]


def _changes(
    watchers: "Sequence[_KindWatcher]", events: Events, stop: Event | None
) -> Iterator[WatchEvent | None]:
    for watcher in watchers:
        parallel.run_daemon(watcher.run, name=f"watch {watcher.kind.plural}")
    try:
        while not (stop and stop.is_set()):
            event = _next_event(events)
            idle = event is None and events.empty()
            if idle and any(watcher.ended.is_set() for watcher in watchers):
                raise RuntimeError("a thread that watches has died")
            yield event
    finally:
        for watcher in watchers:
            watcher.close()


def _next_event(events: Events) -> WatchEvent | None:
    try:
        item = events.get(timeout=_POLL_INTERVAL)
    except queue.Empty:
        return None
    if isinstance(item, ClusterError):
        raise item
    return item


class _KindWatcher:
    """Read one kind in its own thread, so that the server never blocks the caller."""

    def __init__(
        self, session: Session, kind: ReadKind[Object], selection: ObjectSelection, events: Events
    ) -> None:
        self.session = session
        self.kind = kind
        self.namespace = selection.namespace
        self.query = objects.selectors(selection.label_selector)
        self.is_optional = kind in selection.optional

        self.by_uid: dict[str, Object] = {}
        self.version = ""
        self.initial: dict[str, Object] | None = None  # existing objects, until all have arrived
        self.streams_initial = True  # whether the server may send the existing objects

        self.events = events
        self.stopped = Event()
        self.ended = Event()
        self.stream: Stream | None = None
        self.backoff = Backoff(self.stopped)
        self.trim: Trim = lambda item: item

    def close(self) -> None:
        self.stopped.set()
        if self.stream:
            self.stream.close()

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self._list_and_watch()
        except ClusterError as error:
            absent = self.is_optional and isinstance(error, (Forbidden, NotServed))
            if absent and not self.by_uid:  # else objects that may exist would seem deleted
                self._report(Change.SYNCED, NO_OBJECT)
                self.stopped.wait()
            else:
                self._put(error)
        finally:
            self.ended.set()

    def _list_and_watch(self) -> None:
        """Watch until the connection ends, with existing objects first if there is no version."""
        try:
            if not (self.version or self.streams_initial):
                found, version = objects.collect(
                    self.session, self.kind, self.namespace, self.query
                )
                self._sync({item.metadata.uid: self.trim(item) for item in found}, version)
            self._watch()
        except Expired:
            self.version = ""
            self.backoff.pause()
        except Unreachable as error:
            self.backoff.wait_or_raise(error)

    def _sync(self, current: dict[str, Object], version: str) -> None:
        """Report how the existing objects differ from the known ones."""
        for uid in self.by_uid.keys() - current.keys():
            self._report(Change.DELETED, self.by_uid[uid])
        for uid, item in current.items():
            previous = self.by_uid.get(uid)
            if previous is None:
                self._report(Change.ADDED, item)
            elif previous.metadata.resource_version != item.metadata.resource_version:
                self._report(Change.MODIFIED, item)
        self.by_uid = current
        self.version = version
        self.backoff.reset()
        self._report(Change.SYNCED, NO_OBJECT)

    def _watch(self) -> None:
        path = objects.path(self.kind, self.namespace)
        query = self.query | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_SERVER_TIMEOUT_SECONDS),
        }
        query |= {"resourceVersion": self.version} if self.version else _INITIAL_EVENTS
        self.initial = None if self.version else {}

        started = monotonic()
        try:
            stream = self.session.stream(path, query, _SILENCE_SECONDS)
        except ClusterError as error:
            if self.version or not any(option in error.what for option in _INITIAL_EVENTS):
                raise
            self.streams_initial = False
            return

        with stream as self.stream:
            if self.stopped.is_set():
                return
            self.backoff.opened()
            for line in _lines(self.stream):
                self._apply(line)
                self.backoff.reset()
        if monotonic() - started < 1:  # do not reconnect in a tight loop
            self.backoff.pause()

    def _decode(self, line: bytes, shape: type[T]) -> T:
        try:
            return decode(line, shape)
        except ValueError as error:
            raise errors.not_kubernetes(self._info, str(error)) from None

    def _apply(self, line: bytes) -> None:
        event_type = self._decode(line, _Type).type
        if event_type == "ERROR":
            self._raise_error(self._decode(line, _Line[dict[str, Any]]).object)

        if event_type == "BOOKMARK":
            bookmark = self._decode(line, _Line[_Bookmark]).object.metadata
            if self.initial is None:
                self.version = bookmark.resource_version
            elif _INITIAL_EVENTS_END in bookmark.annotations:
                existing = self.initial
                self.initial = None
                self._sync(existing, bookmark.resource_version)
            return

        item = self.trim(self._decode(line, _line_of(self.kind.shape)).object)
        uid = item.metadata.uid
        current = self.by_uid if self.initial is None else self.initial
        if event_type == Change.DELETED:
            current.pop(uid, None)
        else:
            current[uid] = item

        if self.initial is None:
            self.version = item.metadata.resource_version
            self._report(Change(event_type), item)

    @property
    def _info(self) -> RequestInfo:
        return RequestInfo("GET", objects.path(self.kind, self.namespace), self.session.server)

    def _raise_error(self, status: Json) -> None:
        error = errors.error_of_status(self._info, status)
        code = status.get("code")
        failing = not isinstance(code, int) or code >= _FIRST_SERVER_ERROR
        if failing and not isinstance(error, Expired):
            raise Unreachable(error.what, error.hint)
        raise error

    def _report(self, change: Change, item: Object) -> None:
        self._put(WatchEvent(change, self.kind, item))

    def _put(self, item: WatchEvent | ClusterError) -> None:
        while not self.stopped.is_set():
            with suppress(queue.Full):
                self.events.put(item, timeout=_POLL_INTERVAL)
                return


def _line_of(shape: type[T]) -> type[_Line[T]]:
    return _Line[shape]  # type: ignore[valid-type]


def _lines(stream: Stream) -> Iterator[bytes]:
    """Yield the lines of a stream, each with an event; an incomplete last line has none."""
    parts: list[bytes] = []
    size = 0

    for chunk in stream:
        head, newline, rest = chunk.partition(b"\n")
        parts.append(head)
        size += len(head)
        if size > MAX_EVENT_BYTES:
            raise ClusterError(
                f"a watch returned an event larger than {MAX_EVENT_BYTES >> 20} MiB",
                "check the server's address in the kubeconfig",
            )

        if not newline:
            continue
        size = 0
        *lines, tail = (b"".join(parts) + b"\n" + rest).split(b"\n")
        yield from filter(bytes.strip, lines)
        parts = [tail]
