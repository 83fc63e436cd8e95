"""`logs`: the lines of all nodes of a task, and the outcome at the end."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Queue
from threading import Event, Thread
from time import monotonic

from kubectl_sky import names
from kubectl_sky.actions import stop, why
from kubectl_sky.actions.watch import glimpses
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import MOST, Batch, Following, LogOptions, LogSource
from kubectl_sky.errors import SkyError, Unreachable, UserError
from kubectl_sky.observe.logs import Origin
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import notes
from kubectl_sky.workloads.workload import QUEUED

_EVENTS = 3.0  # seconds between two looks at why a node does not start
_USUAL = 2.0  # seconds that a start may take before it is mentioned
_AHEAD = 4  # logs that are read at a time where one is written after the other
_SELDOM = 10.0  # seconds until it is mentioned again, as one node after the other starts

Write = Callable[[Origin, Sequence[bytes], bool], object]
Note = Callable[[str], None]
Look = Callable[[Sequence[TaskStatus]], Collection[str]]


@dataclass(frozen=True)
class Screen:
    """Where lines and notes go."""

    write: Write
    note: Note


@dataclass(frozen=True)
class Request:
    """Which lines of which nodes; `patience` is seconds the first node may take to start.

    At most `most` logs are read at a time, the others after them.
    """

    options: LogOptions
    ranks: Collection[int] = ()
    patience: float = 300.0
    container: str = names.CONTAINER
    most: int = MOST

    def wants(self, node: NodeStatus) -> bool:
        """Say whether a node's log is asked for."""
        return not self.ranks or node.index in self.ranks


def show(session: Session, task: TaskStatus, request: Request, write: Write, note: Note) -> None:
    """Write the logs that are there, node after node; the next ones are read meanwhile."""
    _known(task, request)
    nodes = deque(filter(request.wants, task.nodes))
    begun: deque[tuple[NodeStatus, Following | None]] = deque()
    try:
        while nodes or begun:
            while nodes and len(begun) < _AHEAD:
                node = nodes.popleft()
                begun.append((node, _begin(session, task, request, node)))
            node, following = begun[0]
            if following:
                _pump(following, task, write, note)
                following.close()
            else:
                why_not = f": {node.reason}" if node.reason else ""
                what = "has no log any more" if node.state.ended else "has not started"
                note(f"{node.name} {what}{why_not}")
            begun.popleft()
    finally:
        for _, following in begun:
            if following:
                following.close()


def _begin(
    session: Session, task: TaskStatus, request: Request, node: NodeStatus
) -> Following | None:
    """Begin to read the log of a node; None where it has none."""
    if not node.started:
        return None
    pod, options = node.pod, request.options
    if options.previous and node.previous:  # what started again is another pod
        pod, options = node.previous, replace(options, previous=False)
    following = Following(session, options)
    following.add(LogSource(task.namespace, pod, request.container, node.index))
    following.no_more()
    return following


def follow(
    session: Session, task: TaskStatus, request: Request, write: Write, note: Note
) -> TaskStatus:
    """Write all lines as they come until every node has ended; return how the task ended.

    Says on the way what it waits for. Raises SkyError when no node starts in time, TaskFailed when
    the task is stopped meanwhile.
    """
    _known(task, request)
    watcher = _Watcher(session, task, request, note)
    with Following(session, request.options, request.most) as following:
        reader = Thread(target=following.add_all, args=(watcher.sources(),), daemon=True)
        reader.start()
        try:
            _pump(following, task, write, watcher.heard)
        finally:
            watcher.stop.set()
    return watcher.ended()


def follow_all(
    session: Session, tasks: Sequence[TaskStatus], request: Request, screen: Screen, look: Look
) -> list[TaskStatus]:
    """Follow tasks that run at once, each under its name; return how each ended.

    `look` is told at least twice a second how the tasks are; those of which it returns the ids may
    vanish. Raises as `follow` does, once all have ended.
    """
    for task in tasks:
        _known(task, request)
    watchers = {
        task.id: _Watcher(session, task, request, _named(screen.note, task)) for task in tasks
    }
    owners: dict[str, _Watcher] = {}
    with Following(session, request.options, request.most) as following:
        sources = _all_sources(list(watchers.values()), owners)
        Thread(target=following.add_all, args=(sources,), daemon=True).start()
        try:
            for batch in following.batches():
                spared = look([watcher.latest for watcher in watchers.values()])
                if batch and batch.note and owners[batch.source.pod].latest.id not in spared:
                    screen.note(batch.note)
                if batch and batch.lines:
                    origin = owners[batch.source.pod].origin(batch)
                    screen.write(origin, batch.lines, batch.whole)
        finally:
            for watcher in watchers.values():
                watcher.stop.set()
    spared = look([watcher.latest for watcher in watchers.values()])
    return [
        watcher.latest if task_id in spared else watcher.ended()
        for task_id, watcher in watchers.items()
    ]


def _named(note: Note, task: TaskStatus) -> Note:
    return lambda text: note(f"{task.name}: {text}")


def _all_sources(
    watchers: Sequence["_Watcher"], owners: dict[str, "_Watcher"]
) -> Iterator[LogSource]:
    """Yield the logs of several tasks as they appear, noting whose each pod is."""
    found: Queue[tuple[_Watcher, LogSource | None]] = Queue()

    def watch(watcher: _Watcher) -> None:
        try:
            for source in watcher.sources():
                found.put((watcher, source))
        finally:
            found.put((watcher, None))

    for watcher in watchers:
        Thread(target=watch, args=(watcher,), daemon=True).start()
    left = len(watchers)
    while left:
        watcher, source = found.get()
        if source is None:
            left -= 1
        else:
            owners[source.pod] = watcher
            yield source


def _pump(following: Following, task: TaskStatus, write: Write, note: Note) -> None:
    """Write batches as they come, each node's lines with its prefix if there are several nodes."""
    for batch in following.batches():
        if batch and batch.note:
            note(batch.note)
        if batch and batch.lines:
            write(_origin(task, batch), batch.lines, batch.whole)


def _origin(task: TaskStatus, batch: Batch) -> Origin:
    title = task.workload.title(batch.source.rank)
    prefix = title if task.num_nodes > 1 else ""
    return Origin(task.id, batch.source.rank, title, batch.source.pod, prefix)


def _known(task: TaskStatus, request: Request) -> None:
    unknown = sorted(set(request.ranks) - {node.index for node in task.nodes})
    if unknown:
        raise UserError(
            f"task {task.id} has no rank {unknown[0]}", f"it has ranks 0 to {task.num_nodes - 1}"
        )


class _Watcher:
    """Watches the task in a thread: which logs there are, what it waits for, how it ends."""

    def __init__(self, session: Session, task: TaskStatus, request: Request, note: Note) -> None:
        self.session = session
        self.request = request
        self.note = note
        self.latest = task
        self.error: SkyError | None = None
        self.stop = Event()
        self.stopping = False  # whether nodes are being ended because another one failed
        self.begun = monotonic()
        self.told: set[str] = set()
        self.next_look = self.begun + 1
        self.quiet = 0.0

    def ended(self) -> TaskStatus:
        """Return how the task ended. Raises SkyError where it was lost from sight."""
        if self.error:
            raise self.error
        task = self.latest
        if not task.over:  # a bug, and not to be taken for a task that went well
            raise SkyError(f"lost sight of task {task.id}", f"see `kubectl sky status {task.id}`")
        return task

    def origin(self, batch: Batch) -> Origin:
        """Say whose lines they are, among those of other tasks."""
        own = _origin(self.latest, batch)
        return replace(own, prefix=f"{self.latest.name} {own.prefix}".rstrip())

    def heard(self, text: str) -> None:
        """Pass on what is said of a log; that pods go is no news while they are being stopped."""
        if not self.stopping:
            self.note(text)

    def sources(self) -> Iterator[LogSource]:
        """Yield the log of each node as it starts, until the task is over."""
        try:
            for glimpse in glimpses(self.session, self.latest, self.stop):
                if glimpse:
                    self.latest = glimpse.task
                    self.stopping = self.stopping or stop.others(self.session, self.latest)
                    yield from self._started()
                if self.latest.over:
                    return
                self._tell()
        except SkyError as error:
            self.error = error

    def _started(self) -> Iterator[LogSource]:
        for node in self.latest.nodes:
            if node.started and self.request.wants(node):
                yield LogSource(self.latest.namespace, node.pod, self.request.container, node.index)

    def _tell(self) -> None:
        """Say once what nodes wait for, or that some failed while others go on."""
        waiting = [node for node in self.latest.nodes if node.state is State.PENDING]
        begun = any(node.started or node.restarts for node in self.latest.nodes)
        now = monotonic()
        if any(node.reason == QUEUED for node in waiting):
            self.begun = now  # who waits in a queue is not late
        if waiting and now >= self.next_look:
            self.next_look = now + _EVENTS
            with suppress(Unreachable):  # a server that is away for a while is borne by the watch
                self.latest = why.explained(self.session, self.latest)
        patient = now < max(self.begun + _USUAL, self.quiet)
        for text in notes(self.latest, patient, self.stopping):
            if text not in self.told:
                self.told.add(text)
                self.quiet = now + _SELDOM
                self.note(text)
        if not begun and now > self.begun + self.request.patience:
            reason = self.latest.note or "no pod yet"
            raise SkyError(
                f"task {self.latest.id} has not started in time: {reason}",
                f"it stays there: see `kubectl sky status {self.latest.id}`, or stop it",
            )
