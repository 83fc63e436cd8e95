"""`logs`: write the logs of all nodes of a task and return its outcome."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from kubectl_sky.words.pod_objects import ContainerStatus, Pod

_KEEP_LOGS = (
    "a log is deleted with its pod; to keep it, write `config: {kubectl_sky: {logs: /data/logs}}`,"
    " a folder of a volume"
)

Note = Callable[[str], None]
Pods = Mapping[str, Pod]  # of a task, by name
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
    container: str = names.CONTAINER  # all of each pod if empty
    max_streams: int = MAX_STREAMS  # logs that are read in parallel; the remaining ones follow
    has_prefixes: bool = False  # whether the lines of a single node have its name, too
    by_node: bool = False  # whether existing lines are written so, or in order of time
    until_ready: bool = False  # the logs of an interactive task end when all its nodes are ready
    stop: Event = field(default_factory=Event)  # when set, it ends them soon, as Ctrl-C does
    shown: dict[str, str] = {}  # the last line that was written of each log, by stream
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
    task_of: dict[LogSource, TaskStatus] = {}
    title_of = _titles(tasks)
    pods_of = _read_pods(session, tasks) if request.container != names.CONTAINER else {}
    for task in tasks:
        _check_ranks(task, request)
        pods = pods_of.get(task.id, {})
        logs_of_task = _existing_logs(task, pods, request, ui, title_of[task.id])
        task_of |= dict.fromkeys(logs_of_task, task)

    sources = list(task_of)
    limit = request.max_streams
    if len(sources) > limit and not request.by_node:
        request = replace(request, by_node=True)
        ui.note(
            f"printing node by node: at most {limit} logs are read at a time;"
            f" --max-log-requests {len(sources)} prints them in order of time"
        )

    def origin(source: LogSource) -> Origin:
        task = task_of[source]
        return _origin(task, source, request, title_of[task.id])

    with _following(session, request) as following:
        following.add_all([sources])
        _pump(following, lambda block: _write(block, origin, ui, request), ui.note, request)
    return following.incomplete


def _read_pods(session: Session, tasks: Sequence[TaskStatus]) -> dict[str, Pods]:
    """Return the pods of each task, by its id."""

    def read(task: TaskStatus) -> Pods:
        selector = names.selector({names.TASK_ID: task.id})
        pods = find.list_pods(session, task.namespace, selector)
        return {pod.metadata.name: pod for pod in pods}

    lists = parallel.map_parallel(read, tasks)
    return {task.id: pods for task, pods in zip(tasks, lists, strict=True)}


def _list_containers(
    pod: Pod | None, request: LogRequest, *, has_run: bool, previous: bool = False
) -> list[str]:
    """Return the containers of a pod with logs to read, in kubectl's order.

    `has_run` tells that of the task's container. It is enough unless others are requested.
    """
    default = [request.container or names.CONTAINER] if has_run else []
    if not pod or request.container == names.CONTAINER:
        return default
    statuses = _choose_statuses(pod, request)
    if previous:  # without an earlier log, the API server says so
        return [status.name for status in statuses if status.last_state.terminated] or default
    return [status.name for status in statuses if status.has_run] if statuses else default


def _choose_statuses(pod: Pod, request: LogRequest) -> list[ContainerStatus]:
    statuses = pod.status.all_containers
    return [status for status in statuses if request.container in ("", status.name)]


def _note_waiting(pod: Pod, request: LogRequest, note: Note) -> None:
    """Note in kubectl's words which requested containers have not started."""
    for status in _choose_statuses(pod, request):
        if not status.has_run:
            waiting = status.state.waiting
            reason = f": {waiting.reason}" if waiting and waiting.reason else " - no logs yet"
            name = pod.metadata.name
            note(f'container "{status.name}" in pod "{name}" is waiting to start{reason}')


def _existing_logs(
    task: TaskStatus, pods: Pods, request: LogRequest, ui: UI, title: str
) -> Iterator[LogSource]:
    """Yield the logs of each node that has some; note why the others have none."""
    note = _prefix(ui.note, title)
    has_gone = False
    for node in filter(request.wants, task.nodes):
        is_earlier = request.options.previous and bool(node.previous)  # maybe another pod's
        name = node.previous if is_earlier else node.pod
        pod = pods.get(name)
        previous = request.options.previous and not is_earlier
        containers = _list_containers(pod, request, has_run=node.started, previous=previous)

        if not (node.started or containers):
            is_gone = node.state.ended and not node.pod
            has_gone = has_gone or is_gone
            cause = task.reason(node) or ("its pod was deleted" if is_gone else "")
            reason = f": {cause}" if cause else ""
            state = "no longer has a log" if node.state.ended else "has not started"
            note(f"{node.name} {state}{reason}")
            continue
        if pod and not previous:
            _note_waiting(pod, request, note)
        for container in containers:
            yield LogSource(
                task.namespace,
                name,
                container,
                node.index,
                is_earlier_pod=is_earlier,
                title=f"{title} {node.name}".strip(),
            )
    if has_gone and not task.logs:
        note(f"hint: {_KEEP_LOGS}")


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
    owners: dict[LogSource, TaskFollower] = {}

    with shared, _following(session, request) as following:
        sources = _all_sources(list(followers.values()), owners)
        parallel.run_daemon(following.add_all, sources)
        try:
            for block in following.blocks(partial(_any_held, followers.values())):
                if request.stop.is_set():
                    raise Interrupted("interrupted")
                may_disappear = on_update([follower.latest for follower in followers.values()])
                if block and block.source:
                    if owners[block.source].latest.id not in may_disappear:
                        ui.note(block.note)
                elif block:
                    _write(block, lambda source: owners[source].origin(source), ui, request)
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
    followers: Sequence["TaskFollower"], owners: dict[LogSource, "TaskFollower"]
) -> Iterator[list[LogSource]]:
    """Yield the logs of several tasks as they appear; map them to their watchers."""
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
            owners.update(dict.fromkeys(sources, follower))
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
    origins = {source.stream: origin_of(source) for source in block.last}
    ui.logs([(origins[source.stream], line) for source, line in block.lines], block.final_newline)
    for source, line in block.last.items():
        request.shown[source.stream] = line.decode(errors="replace")


def _origin(
    task: TaskStatus, source: LogSource, request: LogRequest, title_of_task: str = ""
) -> Origin:
    """Return the source of lines; its prefix distinguishes nodes, and several tasks.

    If all containers are read, it always names node and container.
    """
    title = task.title(source.rank)
    has_container = not request.container
    has_node = task.num_nodes > 1 or (request.has_prefixes and not title_of_task)
    parts = [
        title_of_task,
        title if has_node or has_container else "",
        source.container if has_container else "",
    ]
    prefix = " ".join(filter(None, parts))
    return Origin(task.id, source.rank, title, source.pod, prefix, source.container)


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
        self.terminated_events: defaultdict[str, Event] = defaultdict(Event)  # by stream

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
                    pods = {pod.metadata.name: pod for pod in snapshot.pods}
                    yield list(self._wait_for_start(pods))
                    is_current = True
                if is_current and current.finished and not stops_pods:
                    return
                self._note_failures()
                self.latest = self.start.update(current)
        except SkyError as error:
            self.error = error
        finally:
            self.start.end(current)

    def _wait_for_start(self, pods: Pods) -> Iterator[LogSource]:
        """Yield the logs of each node; of its previous pod too, which a watch may have missed.

        A busy API server may report a pod, its end and the next pod at once.
        """
        for node in filter(self.request.wants, self.latest.nodes):
            has_run = {} if node.previous in self.unfollowed else {node.previous: True}
            has_run[node.pod] = node.started
            title = f"{self.title} {node.name}".strip()
            for name in has_run:
                pod = pods.get(name)
                for container in _list_containers(pod, self.request, has_run=has_run[name]):
                    yield LogSource(
                        self.latest.namespace,
                        name,
                        container,
                        node.index,
                        self.terminated_events[names.log_stream(name, container)],
                        title=title,
                    )

    def _report_terminated(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            for container in _list_containers(pod, self.request, has_run=True):
                if has_terminated(pod, container):
                    stream = names.log_stream(pod.metadata.name, container)
                    self.terminated_events[stream].set()

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
