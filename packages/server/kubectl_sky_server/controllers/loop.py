"""The loop of a controller: changes add keys, and one thread at a time processes each key.

A controller says what to watch, which key a change concerns, and how to process a key. The loop has
the rest: watches without end, delays, retries with backoff, limits, and a clean stop.
"""

import logging
import traceback
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from threading import Condition, Event, Thread, current_thread
from time import monotonic
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import backoff, parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, ObjectSelection, Trim, WatchEvent, watch_forever
from kubectl_sky.errors import NotServed, SkyError, attempt
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.settings import Settings

_FIRST_RETRY_SECONDS = 2.0
_MAX_RETRY_SECONDS = 300.0

_log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)


class Numbers(Struct, frozen=True):
    """The metrics of one loop; counters count from the start of the process as the leader.

    `seconds` is the time that its reconciles took. The queue has the keys that are due, and `lag`
    is how many seconds ago the first of them became so.
    """

    reconciles: int = 0
    errors: int = 0
    watch_errors: int = 0
    seconds: float = 0.0
    queue: int = 0
    running: int = 0
    lag: float = 0.0


class Context(Struct, frozen=True):
    """The connection and the settings of one process of controllers.

    `namespace` None means all namespaces. Finished tasks are kept for `retention`; None means for
    ever.
    """

    session: Session
    namespace: str | None
    settings: Settings
    retention: timedelta | None = None


class Watch(Struct, frozen=True):
    """Objects that a controller watches, selected on the server; `trim` is what it keeps."""

    kind: ReadKind[Object]
    label_selector: str = ""
    trim: Trim | None = None


class Controller(ABC, Generic[Key]):
    """What a loop runs. Methods run in several threads; `process` in one at a time per key.

    Of each group, `workers` keys are processed at the same time: groups never wait for each other.
    A key that was processed rests for `rest` seconds and `rest_factor` times the duration.
    """

    watches: Sequence[Watch] = ()
    first: Sequence[Key] = ()  # keys to process at the start
    workers = 4
    rest = 0.0
    rest_factor = 0.0
    max_retry = _MAX_RETRY_SECONDS

    def did(self, what: str) -> None:
        """Take note of an action, without names; the process replaces this."""

    def stop(self) -> None:
        """End soon what is processed."""

    def changed(self, event: WatchEvent) -> tuple[Key, float] | None:
        """Take note of a change; return a key, and in how many seconds to process it."""
        raise NotImplementedError

    @abstractmethod
    def process(self, key: Key) -> float | None:
        """Do what is due; return in how many seconds to do so again, None for the next change.

        An error is logged, and the key is processed again with backoff.
        """

    def group(self, key: Key) -> str:
        return ""


@dataclass
class _Entry:
    """When to process a key, in monotonic time; `due` is inf if nothing is planned."""

    due: float = inf
    not_before: float = 0.0
    is_running: bool = False
    failures: int = 0
    problem: str = ""  # that was logged


class Schedule(Generic[Key]):
    """Which key is to be processed next: not before its time, and few of a group at once."""

    def __init__(self, controller: Controller[Key]) -> None:
        self._controller = controller
        self._entries: dict[Key, _Entry] = defaultdict(_Entry)
        self._times: list[tuple[float, int, Key]] = []  # a heap; outdated items are skipped
        self._order = count()
        self._running = Counter[str]()  # by group
        self._waiting: dict[str, deque[Key]] = defaultdict(deque)  # for others of their group

    @property
    def next_time(self) -> float:
        """When to call `take` again, if nothing is added or done before."""
        return self._times[0][0] if self._times else inf

    def add(self, key: Key, due: float) -> None:
        """Process a key at a time, or earlier if that is planned."""
        entry = self._entries[key]
        due = max(due, entry.not_before)
        if due < entry.due:
            entry.due = due
            self._push(key)

    def numbers(self, now: float) -> Numbers:
        entries = self._entries.values()
        due = [entry.due for entry in entries if not entry.is_running and entry.due <= now]
        running = sum(entry.is_running for entry in entries)
        return Numbers(queue=len(due), running=running, lag=now - min(due, default=now))

    def take(self, now: float) -> Key | None:
        while self.next_time <= now:
            due, _, key = heappop(self._times)
            entry = self._entries.get(key)
            group = self._controller.group(key)
            if not entry or entry.due != due or entry.is_running:
                continue
            if self._running[group] < self._controller.workers:
                entry.is_running = True
                entry.due = inf
                self._running[group] += 1
                return key
            self._waiting[group].append(key)
        return None

    def done(self, key: Key, now: float, duration: float, seconds: float | None) -> None:
        """Plan a key that was processed again: in some seconds, or if it was added meanwhile."""
        rest = self._controller.rest + self._controller.rest_factor * duration
        due = inf if seconds is None else now + seconds
        self._finish(key, now + rest, due).failures = 0

    def failed(self, key: Key, now: float) -> None:
        """Plan a key again with backoff: changes do not bring it forward."""
        entry = self._entries[key]
        entry.failures += 1
        longest = self._controller.max_retry
        retry = now + backoff.delay(entry.failures, _FIRST_RETRY_SECONDS, longest)
        self._finish(key, retry, retry)

    def is_new(self, key: Key, problem: str) -> bool:
        """Remember the problem of a key, empty for none; return whether it has changed."""
        previous = self._entries[key].problem
        self._entries[key].problem = problem
        return previous != problem

    def _finish(self, key: Key, not_before: float, again: float) -> _Entry:
        entry = self._entries[key]
        group = self._controller.group(key)
        again = min(again, entry.due)
        entry.due = inf
        entry.is_running = False
        entry.not_before = not_before

        if again < inf:
            self.add(key, again)
        else:
            del self._entries[key]

        self._running -= Counter((group,))  # removes those at 0
        waiting = self._waiting.pop(group, None)
        if waiting:
            self._push(waiting.popleft())
            self._waiting[group] = waiting
        return entry

    def _push(self, key: Key) -> None:
        heappush(self._times, (self._entries[key].due, next(self._order), key))


class Loop(Generic[Key]):
    """Run a controller in threads, between `start` and `stop`."""

    def __init__(
        self, controller: Controller[Key], session: Session, namespace: str | None
    ) -> None:
        self._controller = controller
        self._session = session
        self._namespace = namespace
        self._stopped = Event()
        self._changed = Condition()  # guards the schedule and the threads
        self._schedule = Schedule(controller)
        self._threads: set[Thread] = set()
        self._numbers = Numbers()

    @property
    def numbers(self) -> Numbers:
        with self._changed:
            now = self._schedule.numbers(monotonic())
            return replace(self._numbers, queue=now.queue, running=now.running, lag=now.lag)

    def _count(self, **more: float) -> None:
        totals = {name: getattr(self._numbers, name) + number for name, number in more.items()}
        self._numbers = replace(self._numbers, **totals)

    def start(self) -> None:
        for key in self._controller.first:
            self.add(key)
        with self._changed:
            for watch in self._controller.watches:
                self._thread(partial(self._watch, watch))
            self._thread(self._dispatch)

    def stop(self) -> None:
        self._stopped.set()
        self._controller.stop()
        with self._changed:
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait at most some seconds for what still runs after `stop`."""
        deadline = monotonic() + seconds
        with self._changed:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Process a key in some seconds, or earlier if that is planned."""
        with self._changed:
            self._schedule.add(key, monotonic() + delay)
            self._changed.notify_all()

    def _thread(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            finally:
                with self._changed:
                    self._threads.discard(current_thread())

        self._threads.add(parallel.run_daemon(run, name=type(self._controller).__name__))

    def _watch(self, watch: Watch) -> None:
        """Add the keys of changes; a watch that is refused is opened again with backoff."""
        selection = ObjectSelection([watch.kind], self._namespace, watch.label_selector)
        failures = 0
        logged = ""

        def follow() -> None:
            nonlocal failures, logged
            try:
                events = watch_forever(self._session, selection, self._stopped, watch.trim)
                for event in filter(None, events):
                    failures = 0
                    logged = ""
                    work = event.type != Change.SYNCED and self._controller.changed(event)
                    if work:
                        self.add(*work)
            except NotServed:  # its add-on may be installed later
                self._stopped.wait(_MAX_RETRY_SECONDS)

        while not self._stopped.is_set():
            _, error = attempt(follow)
            if error:
                failures = failures + 1
                problem = _problem(error)
                with self._changed:
                    self._count(watch_errors=1)
                if problem != logged:
                    _log.warning("cannot watch %s: %s; retrying", watch.kind.plural, problem)
                logged = problem
                seconds = backoff.delay(failures, _FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS)
                self._stopped.wait(seconds)

    def _dispatch(self) -> None:
        """Process each key that is due in a thread of its own."""
        with self._changed:
            while not self._stopped.is_set():
                now = monotonic()
                while (key := self._schedule.take(now)) is not None:
                    try:
                        self._thread(partial(self._run, key))
                    except RuntimeError:  # there is no memory for one more
                        self._schedule.failed(key, now)
                wait = self._schedule.next_time - now
                self._changed.wait(None if wait == inf else wait)

    def _run(self, key: Key) -> None:
        started = monotonic()
        seconds, error = attempt(lambda: self._controller.process(key))
        problem = _problem(error) if error else ""
        with self._changed:
            if self._schedule.is_new(key, problem):
                change = f"{problem}; retrying" if problem else "works again"
                _log.warning("%s: %s", key, change)
            now = monotonic()
            self._count(reconciles=1, errors=bool(problem), seconds=now - started)
            if problem:
                self._schedule.failed(key, now)
            else:
                self._schedule.done(key, now, now - started, seconds)
            self._changed.notify_all()


def _problem(error: Exception) -> str:
    """Return what to log of an error; the text of a bug may have anything in it."""
    if isinstance(error, SkyError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"internal error: {type(error).__name__} in {place.name}, line {place.lineno}"
