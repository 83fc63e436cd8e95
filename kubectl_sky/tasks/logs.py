"""`logs`: write the logs of all nodes of a task and return its outcome."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from queue import Queue
from threading import Event

from msgspec import Struct, field
from msgspec.structs import replace

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import (
    MAX_STREAMS,
    Block,
    Following,
    LogOptions,
    LogSource,
    has_terminated,
)
from kubectl_sky.errors import Interrupted, KubeletUnreachable, SkyError
from kubectl_sky.observe.logs import Origin
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.titles import titles
from kubectl_sky.observe.waiting import notes
from kubectl_sky.plan.runtime import READY
from kubectl_sky.tasks import find, stop
from kubectl_sky.tasks.hangs import HangReporter
from kubectl_sky.tasks.pending import StartReporter
from kubectl_sky.tasks.pipeline import Leadership
from kubectl_sky.tasks.recovery import Recovery
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import SharedWatches, watch_task
from kubectl_sky.words import names
from kubectl_sky.words.pod_objects import Pod

Note = Callable[[str], None]
OnUpdate = Callable[[Sequence[TaskStatus]], Collection[str]]


class LogRequest(Struct, frozen=True):
    """The nodes and log lines to read, and whether this client leads the task.

    A client that `leads` stops the remaining nodes of a task when one fails, resumes the stages of
    a pipeline, stops auxiliary tasks, and replaces pods of lost cluster nodes, unless a controller
    does. Others change nothing.
    """

    options: LogOptions
    ranks: Collection[int] = ()  # all if empty
    start_timeout: float = 300.0  # seconds, of the first node
    container: str = names.CONTAINER
    max_streams: int = MAX_STREAMS  # logs that are read in parallel; the remaining ones follow
    has_prefixes: bool = False  # whether the lines of a single node have its name, too
    by_node: bool = False  # whether existing lines are written so, or in order of time
    until_ready: bool = False  # the logs of an interactive task end when all its nodes are ready
    stop: Event = field(default_factory=Event)  # when set, it ends them soon, as Ctrl-C does
    shown: dict[str, str] = {}  # the last line that was written of each pod
    leads: bool = False
    node_lost_after: timedelta | None = None  # after which pods of a cluster node are replaced
    read_silence_limit: Callable[[], timedelta] = timedelta  # after which that is noted; 0: never

    def wants(self, node: NodeStatus) -> bool:
        return not self.ranks or node.index in self.ranks


def show(
    session: Session, tasks: Sequence[TaskStatus], request: LogRequest, ui: UI
) -> list[KubeletUnreachable]:
    """Write the existing logs in order of time, or node by node.

    Of several tasks, lines and notes are prefixed with what distinguishes them. Returns the errors
    of the cluster nodes that do not respond, whose logs are missing.
    """
    sources = []
    task_of: dict[str, TaskStatus] = {}
    title_of = _titles(tasks)
    for task in tasks:
        _check_ranks(task, request)
        logs_of_task = list(_existing_logs(task, request, ui, title_of[task.id]))
        sources += logs_of_task
        task_of |= {source.pod: task for source in logs_of_task}

    limit = request.max_streams
    if len(sources) > limit and not request.by_node:
        request = replace(request, by_node=True)
        ui.note(
            f"printing node by node: at most {limit} logs are read at a time;"
            f" --max-log-requests {len(sources)} prints them in order of time"
        )

    def origin(source: LogSource) -> Origin:
        task = task_of[source.pod]
        return _origin(task, source, request, title_of[task.id])

    with _following(session, request) as following:
        following.add_all([sources])
        _pump(following, lambda block: _write(block, origin, ui, request), ui.note, request)
    return following.incomplete


def _existing_logs(
    task: TaskStatus, request: LogRequest, ui: UI, title: str
) -> Iterator[LogSource]:
    """Yield the log of each node that has one; note why the others have none."""
    note = _prefix(ui.note, title)
    for node in filter(request.wants, task.nodes):
        if not node.started:
            reason = f": {cause}" if (cause := task.reason(node)) else ""
            state = "no longer has a log" if node.state.ended else "has not started"
            note(f"{node.name} {state}{reason}")
            continue

        is_earlier = request.options.previous and bool(node.previous)  # maybe another pod's
        pod = node.previous if is_earlier else node.pod
        yield LogSource(
            task.namespace,
            pod,
            request.container,
            node.index,
            is_earlier_pod=is_earlier,
            title=f"{title} {node.name}".strip(),
        )


def _titles(tasks: Sequence[TaskStatus]) -> dict[str, str]:
    """Return what distinguishes each task, by its id; empty for a single one."""
    return titles(tasks) if len(tasks) > 1 else {task.id: "" for task in tasks}


def follow(session: Session, task: TaskStatus, request: LogRequest, ui: UI) -> TaskStatus:
    """Stream the logs until every node has finished, and return the finished task.

    With `until_ready`, an interactive task is returned as soon as all its nodes are ready.

    Writes notes on what the task waits for. Raises SkyError when no node starts in time, and
    TaskFailed when the task is stopped meanwhile.
    """
    _check_ranks(task, request)
    follower = TaskFollower(session, task, request, ui)
    with _following(session, request) as following:
        parallel.run_daemon(following.add_all, follower.sources())
        try:
            note = follower.note_about_log
            is_held = partial(_any_held, [follower])
            nodes = task.num_nodes if task.interactive else 0

            def write(block: Block) -> None:
                _write(block, follower.origin, ui, request)

            is_ready = _pump(following, write, note, request, is_held, nodes)
        finally:
            follower.stop.set()
    return follower.latest if is_ready else follower.result()


def follow_all(
    session: Session,
    tasks: Sequence[TaskStatus],
    request: LogRequest,
    ui: UI,
    on_update: OnUpdate,
) -> list[TaskStatus]:
    """Follow parallel tasks and return them when they have finished.

    Lines and notes are prefixed with the task name.

    `on_update` is called with the current tasks at least twice a second. Tasks whose ids it returns
    may disappear. Raises the same errors as `follow`, after all tasks have finished.
    """
    for task in tasks:
        _check_ranks(task, request)

    shared = SharedWatches(session, tasks)
    title_of = titles(tasks)
    followers = {
        task.id: TaskFollower(session, task, request, ui, title_of[task.id], shared)
        for task in tasks
    }
    owners: dict[str, TaskFollower] = {}

    with shared, _following(session, request) as following:
        sources = _all_sources(list(followers.values()), owners)
        parallel.run_daemon(following.add_all, sources)
        try:
            for block in following.blocks(partial(_any_held, followers.values())):
                if request.stop.is_set():
                    raise Interrupted("interrupted")
                may_disappear = on_update([follower.latest for follower in followers.values()])
                if block and block.source:
                    if owners[block.source.pod].latest.id not in may_disappear:
                        ui.note(block.note)
                elif block:
                    _write(block, lambda source: owners[source.pod].origin(source), ui, request)
        finally:
            for follower in followers.values():
                follower.stop.set()

    may_disappear = on_update([follower.latest for follower in followers.values()])
    return [
        follower.latest if task_id in may_disappear else follower.result()
        for task_id, follower in followers.items()
    ]


def _any_held(followers: Iterable["TaskFollower"]) -> bool:
    """Return whether a failed container is held: its log ends later."""
    return any(follower.latest.held for follower in followers)


def _prefix(note: Note, title: str) -> Note:
    return (lambda text: note(f"{title}: {text}")) if title else note


def _all_sources(
    followers: Sequence["TaskFollower"], owners: dict[str, "TaskFollower"]
) -> Iterator[list[LogSource]]:
    """Yield the logs of several tasks as they appear; map pods to their watchers."""
    queue: Queue[tuple[TaskFollower, list[LogSource] | None]] = Queue()

    def watch(follower: TaskFollower) -> None:
        try:
            for sources in follower.sources():
                queue.put((follower, sources))
        finally:
            queue.put((follower, None))

    for follower in followers:
        parallel.run_daemon(watch, follower)
    active = len(followers)
    while active:
        follower, sources = queue.get()
        if sources is None:
            active -= 1
        else:
            owners.update((source.pod, follower) for source in sources)
            yield sources


def _following(session: Session, request: LogRequest) -> Following:
    return Following(session, request.options, request.max_streams, by_node=request.by_node)


def _pump(
    following: Following,
    write: Callable[[Block], None],
    note: Note,
    request: LogRequest,
    is_held: Callable[[], bool] = lambda: False,
    interactive: int = 0,
) -> bool:
    """Write blocks as they arrive.

    Returns whether all the `interactive` nodes are ready. Raises Interrupted on `stop`.
    """
    ready = set[int]()
    for block in following.blocks(is_held):
        if request.stop.is_set():
            raise Interrupted("interrupted")
        if block and block.note:
            note(block.note)
        elif block:
            write(block)
            if request.until_ready and interactive:
                ready |= {source.rank for source, line in block.lines if line.rstrip() == READY}
                if len(ready) == interactive:
                    return True
    return False


def _write(
    block: Block, origin_of: Callable[[LogSource], Origin], ui: UI, request: LogRequest
) -> None:
    origins = {source.pod: origin_of(source) for source in block.last}
    ui.logs([(origins[source.pod], line) for source, line in block.lines], block.final_newline)
    for source, line in block.last.items():
        request.shown[source.pod] = line.decode(errors="replace")


def _origin(
    task: TaskStatus, source: LogSource, request: LogRequest, title_of_task: str = ""
) -> Origin:
    """Return the source of lines; its prefix distinguishes nodes, and several tasks."""
    title = task.title(source.rank)
    has_node = task.num_nodes > 1 or (request.has_prefixes and not title_of_task)
    prefix = f"{title_of_task} {title if has_node else ''}".strip()
    return Origin(task.id, source.rank, title, source.pod, prefix)


def _check_ranks(task: TaskStatus, request: LogRequest) -> None:
    unknown = sorted(set(request.ranks) - {node.index for node in task.nodes})
    if unknown:
        raise find.unknown_rank(task, unknown[0])


class TaskFollower:
    """Watch a task in a thread: its logs, what it waits for, and its outcome."""

    def __init__(
        self,
        session: Session,
        task: TaskStatus,
        request: LogRequest,
        ui: UI,
        title: str = "",
        shared: SharedWatches | None = None,
    ) -> None:
        """The title distinguishes several tasks; it stands before lines and notes."""
        self.session = session
        self.shared = shared
        self.request = request
        self.title = title
        self.note = _prefix(ui.note, title)
        self.latest = task
        self.unfollowed = {node.previous for node in task.nodes} | {""}  # earlier pods
        self.error: SkyError | None = None
        self.stop = Event()
        self.stopping = False  # whether nodes are being stopped because another one failed
        self.noted: set[str] = set()
        self.start = StartReporter(session, ui, request.start_timeout)
        self.terminated_events: defaultdict[str, Event] = defaultdict(Event)  # by pod

    def result(self) -> TaskStatus:
        """Return the finished task. Raises SkyError if the watch failed."""
        if self.error:
            raise self.error
        task = self.latest
        if not task.finished:  # a bug; it must not look like success
            raise SkyError(
                f"stopped following task {task.id} before it finished",
                f"see `kubectl sky status {task.id}`",
            )
        return task

    def origin(self, source: LogSource) -> Origin:
        return _origin(self.latest, source, self.request, self.title)

    def note_about_log(self, text: str) -> None:
        """Pass on a note about a log, unless nodes are being stopped.

        Missing pods are expected then.
        """
        if not self.stopping:
            self.note(text)

    def sources(self) -> Iterator[list[LogSource]]:
        """Yield the logs of the nodes as they start, until the task has finished."""
        current = self.latest
        is_current = False
        try:
            patient = self.session.patient(self.stop)
            leads = Leadership(patient, self.latest.namespace)
            stop_kept_pods = stop.KeptPodsStopper(patient, leads, self.note)
            recover_nodes = Recovery(patient, leads, self.note, self.request.node_lost_after)
            report_hang = HangReporter(
                patient,
                self.note,
                self.request.read_silence_limit,
                lambda: self.request.leads and leads(),
            )
            for snapshot in watch_task(self.session, self.latest, self.stop, self.shared):
                if snapshot:
                    self.latest = current = snapshot.task
                    self._report_terminated(snapshot.pods)
                self.stopping = self.stopping or current.stopping
                # the controller may stop meanwhile
                if self.request.leads and (snapshot or leads.is_with_controller):
                    self.stopping = self.stopping or stop.stop_surviving_nodes(
                        patient, current, leads
                    )
                stops_pods = self.request.leads and stop_kept_pods(current)
                if self.request.leads:
                    recover_nodes(current)
                self._note_kept_pods(current)
                report_hang(current)
                if snapshot:
                    yield list(self._wait_for_start())
                    is_current = True
                if is_current and current.finished and not stops_pods:
                    return
                self._note_failures()
                self.latest = self.start.update(current)
        except SkyError as error:
            self.error = error
        finally:
            self.start.end(current)

    def _wait_for_start(self) -> Iterator[LogSource]:
        """Yield the log of each node; that of its previous pod too, which a watch may have missed.

        A busy API server may report a pod, its end and the next pod at once.
        """
        for node in filter(self.request.wants, self.latest.nodes):
            pods = [] if node.previous in self.unfollowed else [node.previous]
            pods += [node.pod] * node.started
            title = f"{self.title} {node.name}".strip()
            for pod in pods:
                yield LogSource(
                    self.latest.namespace,
                    pod,
                    self.request.container,
                    node.index,
                    self.terminated_events[pod],
                    title=title,
                )

    def _report_terminated(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if has_terminated(pod, self.request.container):
                self.terminated_events[pod.metadata.name].set()

    def _note_kept_pods(self, task: TaskStatus) -> None:
        """Note once which containers keep pods after `main` has ended, and who stops them."""
        if not task.kept:
            return
        stops = self.request.leads and stop.list_kept_pods(task)
        then = "stopping what remains" if stops else f"see `kubectl sky doctor {task.id}`"
        if then not in self.noted:
            self.noted.add(then)
            self.note(f"{task.kept_note} although main has ended; {then}")

    def _note_failures(self) -> None:
        """Note once which nodes failed or restart while others still run."""
        for text in notes(self.latest, self.stopping):
            if text not in self.noted:
                self.noted.add(text)
                self.note(text)
