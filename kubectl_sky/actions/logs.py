"""`logs`: write the logs of all nodes of a task and return its outcome."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Queue
from threading import Event, Thread
from time import monotonic

from kubectl_sky import names
from kubectl_sky.actions import stop, why
from kubectl_sky.actions.watch import glimpses
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import MOST, Batch, Following, LogOptions, LogSource, ended
from kubectl_sky.errors import SkyError, Unreachable, UserError
from kubectl_sky.observe.logs import Origin
from kubectl_sky.observe.nodes import NodeStatus, Object, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import notes
from kubectl_sky.plan.interactive import READY
from kubectl_sky.workloads.workload import QUEUED

_EVENTS = 3.0  # seconds between checks of why a node does not start
_USUAL = 2.0  # seconds that a start may take before a note is written
_AHEAD = 4  # logs read in parallel while they are written one after the other
_SELDOM = 10.0  # seconds between notes while nodes start one after the other

Write = Callable[[Origin, Sequence[bytes], bool], object]
Note = Callable[[str], None]
Look = Callable[[Sequence[TaskStatus]], Collection[str]]


@dataclass(frozen=True)
class Screen:
    """The functions that write log lines and notes."""

    write: Write
    note: Note


@dataclass(frozen=True)
class Request:
    """The nodes and log lines to read.

    `patience` is the start timeout of the first node in seconds. At most `most` logs are read in
    parallel; the remaining ones follow. `until_ready` ends the logs of an interactive task when all
    its nodes are ready.
    """

    options: LogOptions
    ranks: Collection[int] = ()
    patience: float = 300.0
    container: str = names.CONTAINER
    most: int = MOST
    until_ready: bool = False

    def wants(self, node: NodeStatus) -> bool:
        """Return whether the log of a node is requested."""
        return not self.ranks or node.index in self.ranks


def show(session: Session, task: TaskStatus, request: Request, write: Write, note: Note) -> None:
    """Write the existing logs node by node, and prefetch the next ones."""
    _known(task, request)
    nodes = deque(filter(request.wants, task.nodes))
    streams: deque[tuple[NodeStatus, Following | None]] = deque()
    try:
        while nodes or streams:
            while nodes and len(streams) < _AHEAD:
                node = nodes.popleft()
                streams.append((node, _begin(session, task, request, node)))
            node, following = streams[0]
            if following:
                _pump(following, task, write, note)
                following.close()
            else:
                reason = f": {node.reason}" if node.reason else ""
                state = "no longer has a log" if node.state.ended else "has not started"
                note(f"{node.name} {state}{reason}")
            streams.popleft()
    finally:
        for _, following in streams:
            if following:
                following.close()


def _begin(
    session: Session, task: TaskStatus, request: Request, node: NodeStatus
) -> Following | None:
    """Start to read the log of a node; None if the node has not started."""
    if not node.started:
        return None
    pod, options = node.pod, request.options
    if options.previous and node.previous:  # the node was restarted in another pod
        pod, options = node.previous, replace(options, previous=False)
    following = Following(session, options)
    following.add(LogSource(task.namespace, pod, request.container, node.index))
    following.no_more()
    return following


def follow(
    session: Session, task: TaskStatus, request: Request, write: Write, note: Note
) -> TaskStatus:
    """Stream the logs until every node has finished, and return the finished task.

    With `until_ready`, an interactive task is returned as soon as all its nodes are ready.

    Writes notes on what the task waits for. Raises SkyError when no node starts in time, and
    TaskFailed when the task is stopped meanwhile.
    """
    _known(task, request)
    watcher = _Watcher(session, task, request, note)
    waits = request.until_ready and task.interactive
    with Following(session, request.options, request.most) as following:
        reader = Thread(target=following.add_all, args=(watcher.sources(),), daemon=True)
        reader.start()
        try:
            is_ready = _pump(following, task, write, watcher.heard, until_ready=waits)
        finally:
            watcher.stop.set()
    return watcher.latest if is_ready else watcher.ended()


def follow_all(
    session: Session, tasks: Sequence[TaskStatus], request: Request, screen: Screen, look: Look
) -> list[TaskStatus]:
    """Follow parallel tasks and return them when they have finished.

    Lines and notes are prefixed with the task name.

    `look` is called with the current tasks at least twice a second. Tasks whose ids it returns may
    disappear. Raises the same errors as `follow`, after all tasks have finished.
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
    """Yield the logs of several tasks as they appear; map pods to their watchers."""
    queue: Queue[tuple[_Watcher, LogSource | None]] = Queue()

    def watch(watcher: _Watcher) -> None:
        try:
            for source in watcher.sources():
                queue.put((watcher, source))
        finally:
            queue.put((watcher, None))

    for watcher in watchers:
        Thread(target=watch, args=(watcher,), daemon=True).start()
    active = len(watchers)
    while active:
        watcher, source = queue.get()
        if source is None:
            active -= 1
        else:
            owners[source.pod] = watcher
            yield source


def _pump(
    following: Following, task: TaskStatus, write: Write, note: Note, *, until_ready: bool = False
) -> bool:
    """Write batches as they arrive, with a prefix if the task has several nodes.

    Returns whether all nodes of an interactive task are ready.
    """
    ready = set()
    for batch in following.batches():
        if batch and batch.note:
            note(batch.note)
        if batch and batch.lines:
            write(_origin(task, batch), batch.lines, batch.whole)
            if until_ready and READY in (line.rstrip() for line in batch.lines):
                ready.add(batch.source.rank)
                if len(ready) == task.num_nodes:
                    return True
    return False


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
    """Watch a task in a thread: its logs, what it waits for, and its outcome."""

    def __init__(self, session: Session, task: TaskStatus, request: Request, note: Note) -> None:
        self.session = session
        self.request = request
        self.note = note
        self.latest = task
        self.error: SkyError | None = None
        self.stop = Event()
        self.stopping = False  # whether nodes are being stopped because another one failed
        self.begun = monotonic()
        self.told: set[str] = set()
        self.next_look = self.begun + 1
        self.quiet = 0.0
        self.container_ends: defaultdict[str, Event] = defaultdict(Event)  # by pod

    def ended(self) -> TaskStatus:
        """Return the finished task. Raises SkyError if the watch failed."""
        if self.error:
            raise self.error
        task = self.latest
        if not task.over:  # a bug; it must not look like success
            raise SkyError(
                f"stopped following task {task.id} before it finished",
                f"see `kubectl sky status {task.id}`",
            )
        return task

    def origin(self, batch: Batch) -> Origin:
        """Return the origin of a batch, with the task name in its prefix."""
        origin = _origin(self.latest, batch)
        return replace(origin, prefix=f"{self.latest.name} {origin.prefix}".rstrip())

    def heard(self, text: str) -> None:
        """Pass on a note about a log, unless nodes are being stopped.

        Missing pods are expected then.
        """
        if not self.stopping:
            self.note(text)

    def sources(self) -> Iterator[LogSource]:
        """Yield the log of each node as it starts, until the task has finished."""
        try:
            for glimpse in glimpses(self.session, self.latest, self.stop):
                if glimpse:
                    self.latest = glimpse.task
                    self._report_ends(glimpse.pods)
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
                yield LogSource(
                    self.latest.namespace,
                    node.pod,
                    self.request.container,
                    node.index,
                    self.container_ends[node.pod],
                )

    def _report_ends(self, pods: Iterable[Object]) -> None:
        """Report terminated containers to the readers of their logs."""
        for pod in pods:
            if ended(dict(pod), self.request.container):
                self.container_ends[pod["metadata"]["name"]].set()

    def _tell(self) -> None:
        """Note once what nodes wait for, or that some failed while others still run."""
        waiting = [node for node in self.latest.nodes if node.state is State.PENDING]
        begun = any(node.started or node.restarts for node in self.latest.nodes)
        now = monotonic()
        if any(node.reason == QUEUED for node in waiting):
            self.begun = now  # time in a queue does not count towards the start timeout
        if waiting and now >= self.next_look:
            self.next_look = now + _EVENTS
            with suppress(Unreachable):  # the watch retries an unreachable server
                self.latest = why.explained(self.session, self.latest)
        quiet = now < max(self.begun + _USUAL, self.quiet)
        for text in notes(self.latest, quiet, self.stopping):
            if text not in self.told:
                self.told.add(text)
                self.quiet = now + _SELDOM
                self.note(text)
        if not begun and now > self.begun + self.request.patience:
            reason = self.latest.note or "no pod yet"
            raise SkyError(
                f"task {self.latest.id} did not start in time: {reason}",
                f"it remains submitted; run `kubectl sky doctor {self.latest.id}` for the cause",
            )
