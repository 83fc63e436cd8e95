"""Explain why nodes are pending, from Kueue, gang schedulers and events, and report it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, Forbidden, NotServed, SkyError, Unreachable
from kubectl_sky.observe import capacity, queues, reasons, verdict, waiting
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.reasons import UNSCHEDULABLE
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import WaitingStage
from kubectl_sky.tasks import room, watch
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.ui import UI, Waiting
from kubectl_sky.tasks.watch import TaskUpdate
from kubectl_sky.words import kinds, names
from kubectl_sky.workloads.workload import QUEUED

_Warnings = Mapping[tuple[str, str], Json]  # events by namespace and name of their object

_FIRST_LOOK = 1.0  # seconds until the first look at why nodes do not start
_LOOK_INTERVAL = 3.0  # seconds between looks at why nodes do not start
_DIAGNOSIS_INTERVAL = 60.0  # seconds until the cause is looked for again
_USUAL_START_SECONDS = 2.0  # seconds that a start may take before a line is written
_REPORT_INTERVAL = 10.0  # seconds between lines while nodes start one after the other


def explain_pending(session: Session, task: TaskStatus) -> TaskStatus:
    """Return the task with the reason for each pending node.

    Lists warning events only if a pending node has no reason yet, and Kueue Workloads only if a
    node is queued. Without permission to read them, no reasons are added.
    """
    task = _explain_gang(session, _explain_queue(session, task))
    texts = _why_gangs_wait(session, task.namespace, [task])
    task = _with_gang(task, UNSCHEDULABLE, texts.get(task.id))
    if not any(map(_has_no_reason, task.nodes)):
        return task
    return _add_warnings(task, _list_warnings(session, task.namespace))


class Reasons(Struct, frozen=True):
    """What the cluster says of tasks that wait: the warnings, and why gangs do, by task id."""

    warnings: _Warnings = {}
    gangs: Mapping[str, str] = {}


def look(session: Session, namespace: str | None, tasks: Sequence[TaskStatus]) -> Reasons:
    """Read why tasks of a namespace (None: all) wait, with few requests, and only if some do."""
    gangs = _why_gangs_wait(session, namespace, tasks)
    tasks = [_with_gang(task, UNSCHEDULABLE, gangs.get(task.id)) for task in tasks]
    warnings = _list_warnings(session, namespace) if _lack_reasons(tasks) else {}
    return Reasons(warnings, gangs)


def add_reasons(task: TaskStatus, reasons: Reasons) -> TaskStatus:
    return _add_warnings(
        _with_gang(task, UNSCHEDULABLE, reasons.gangs.get(task.id)), reasons.warnings
    )


def explain_all(
    session: Session, namespace: str | None, tasks: Sequence[TaskStatus]
) -> list[TaskStatus]:
    """Return listed tasks with the reasons of pending nodes."""
    reasons = look(session, namespace, tasks)
    return [add_reasons(task, reasons) for task in tasks]


def watch_explained(session: Session, scope: Scope) -> Iterator[TaskUpdate | None]:
    """Yield the tasks of a scope as `explain_all` does, after changes; None when idle."""
    latest: TaskUpdate | None = None
    tasks: list[TaskStatus] = []
    reasons = Reasons()
    next_look = monotonic() + _FIRST_LOOK

    for update in watch.watch_owned(session, scope):
        latest = update or latest
        looks = latest and monotonic() >= next_look and may_wait(latest.tasks)
        if latest and looks:
            next_look = monotonic() + _LOOK_INTERVAL
            with suppress(Unreachable):  # the watch retries an unreachable server
                reasons = look(session, scope.namespace, latest.tasks)

        if latest is None or not (update or looks):
            yield None
            continue

        before = tasks
        tasks = [add_reasons(task, reasons) for task in latest.tasks]
        yield replace(latest, tasks=tasks) if update or tasks != before else None


def may_wait(tasks: Sequence[TaskStatus]) -> bool:
    """Return whether something is to be read about tasks that wait."""
    return _lack_reasons(tasks) or any(map(_may_wait_for_gang, tasks))


def _lack_reasons(tasks: Iterable[TaskStatus]) -> bool:
    """Return whether nodes have no reason and do not just wait for their turn in an array."""
    return any(
        _has_no_reason(node)
        for task in tasks
        if task.state is State.PENDING or not task.workload.independent_nodes
        for node in task.nodes
    )


def _list_warnings(session: Session, namespace: str | None) -> _Warnings:
    """List the latest warning event about each object; none without permission."""
    try:
        events = CoreManager(session).list_events(namespace, field_selector="type=Warning")
    except Forbidden:
        return {}
    return {
        (event["metadata"].get("namespace", ""), event["involvedObject"].get("name", "")): event
        for event in events
    }


def _explain_queue(session: Session, task: TaskStatus) -> TaskStatus:
    if not any(node.reason == QUEUED for node in task.nodes):
        return task
    try:
        positions = queues.waiting(
            access.list_kueue(session, kinds.QUEUED_WORKLOAD, task.namespace)
        )
    except (Forbidden, NotServed):
        return task
    kind = task.workload.kind.kind

    def explain(node: NodeStatus) -> NodeStatus:
        position = queues.of_object(positions, kind, node.job) if node.reason == QUEUED else None
        return replace(node, message=str(position)) if position else node

    return replace(task, nodes=tuple(explain(node) for node in task.nodes))


def _explain_gang(session: Session, task: TaskStatus) -> TaskStatus:
    kind = task.workload.companion_kind
    if kind is None or not any(_has_no_cluster_node(node) for node in task.nodes):
        return task
    selector = names.selector({names.TASK_ID: task.id})
    try:
        groups = objects.list_all(session, kind, task.namespace, label_selector=selector)
    except (Forbidden, NotServed):
        return task
    blocker = next(filter(None, map(queues.waiting_group, groups)), None)
    return _with_gang(task, blocker.reason, str(blocker)) if blocker else task


def _why_gangs_wait(
    session: Session, namespace: str | None, tasks: Sequence[TaskStatus]
) -> dict[str, str]:
    """Return why the scheduler starts no node of a gang, by task id: in numbers, as doctor does.

    Reads PodGroups, cluster nodes and pods only if nodes of a task may wait for each other.
    """
    waiting = list(filter(_may_wait_for_gang, tasks))
    kind = access.find_gang(session) if waiting else None
    if kind is None:
        return {}
    try:
        groups = objects.list_all(session, kind, namespace)
    except (Forbidden, NotServed):
        return {}

    topologies = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): queues.gang_of(group)[1]
        for group in groups
        if any(queues.gang_of(group))
    }

    cluster_nodes = room.list_cluster_nodes(session) if topologies else ()
    running = room.list_running(session, cluster_nodes) or ()
    pods = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in running}

    texts = {}
    for task in waiting:
        nodes = list(filter(_has_no_cluster_node, task.nodes))
        own = filter(None, (pods.get((task.namespace, node.pod)) for node in nodes))
        pod = next(own, {})
        topology = topologies.get((task.namespace, queues.group_name(pod)))
        if topology is not None:
            parts = capacity.explain_gang(pod, len(nodes), cluster_nodes, running, topology)
            texts[task.id] = "".join(parts)
    return texts


def _with_gang(task: TaskStatus, reason: str, text: str | None) -> TaskStatus:
    """Return the task with the reason of nodes that wait for each other; None if they do not."""
    if text is None:
        return task
    nodes = tuple(
        replace(node, reason=reason, message=text) if _has_no_cluster_node(node) else node
        for node in task.nodes
    )
    causes = {UNSCHEDULABLE: text} if reason == UNSCHEDULABLE else {}
    return replace(task, nodes=nodes, causes={**task.causes, **causes})


def _may_wait_for_gang(task: TaskStatus) -> bool:
    blocked = any(node.reason == UNSCHEDULABLE and not node.host for node in task.nodes)
    return blocked and task.num_nodes > 1


def _has_no_cluster_node(node: NodeStatus) -> bool:
    waiting = node.state is State.PENDING and not node.host
    return waiting and (reasons.find(node.reason).is_normal or node.reason == UNSCHEDULABLE)


def _has_no_reason(node: NodeStatus) -> bool:
    return node.state is State.PENDING and reasons.find(node.reason).is_normal


def _add_warnings(task: TaskStatus, warnings: _Warnings) -> TaskStatus:
    """Return the task with the warnings about the nodes' pods, or the owners of their pods."""
    nodes = []
    causes = dict(task.causes)
    for node in task.nodes:
        name = node.pod or task.workload.pod_owner_name(node.job)
        event = warnings.get((task.namespace, name)) if _has_no_reason(node) else None
        uid = event["involvedObject"].get("uid") if event else None
        is_earlier = uid and uid != task.uids.get(name, uid)  # of a deleted object of this name

        if event and not is_earlier:
            reason = event.get("reason", "")
            message = event.get("message", "")
            causes.setdefault(reason, verdict.explain_event(task, node, event))
            nodes.append(replace(node, reason=reason, message=message))
        else:
            nodes.append(node)
    return replace(task, nodes=tuple(nodes), causes=causes)


class StartReporter:
    """Report the stages of a task's start, and the cause when a node cannot start.

    A user interface that is not live gets a line when the stage changes: not for the first seconds
    of a normal start, and then not too often. `suffix` says what follows the start.
    """

    def __init__(
        self, session: Session, ui: UI, limit: float | None = None, suffix: str = ""
    ) -> None:
        self._session = session
        self._ui = ui
        self._limit = limit
        self._suffix = suffix

        self._begun_at = monotonic()
        self._started_at = self._begun_at  # when the time limit began
        self._next_look = self._begun_at + _FIRST_LOOK
        self._quiet_until = self._begun_at + _USUAL_START_SECONDS

        self._explained: dict[NodeStatus, NodeStatus] = {}
        self._gang: str | None = None  # why all nodes wait for each other
        self._looked_early = False
        self._blocked: frozenset[tuple[str, str]] = frozenset()
        self._next_diagnosis = 0.0
        self._cause = ""
        self._stage = ""
        self._reported: set[str] = set()

    def update(self, task: TaskStatus) -> TaskStatus:
        """Report the current stage; return the task with the reasons of pending nodes.

        Raises SkyError if no node starts within the time limit.
        """
        now = monotonic()
        if any(node.reason == QUEUED for node in task.nodes):
            self._started_at = now  # time in a queue does not count towards the limit

        task = self._explain(task, now)
        self._diagnose(task, now)
        self._report(task, now)
        self._ui.following(task.id, waiting.title(task))

        started = any(node.started or node.restarts for node in task.nodes)
        if self._limit is not None and not started and now > self._started_at + self._limit:
            reason = self._cause or task.note or "no pod yet"
            raise SkyError(
                f"task {task.id} did not start in time: {reason}",
                f"it remains submitted; run `kubectl sky doctor {task.id}` for the cause",
            )
        return task

    def end(self, task: TaskStatus) -> None:
        """Report no stage any more."""
        self._ui.following(task.id, "")
        if self._stage:
            self._stage = ""
            self._ui.waiting(task.id, None)

    def _explain(self, task: TaskStatus, now: float) -> TaskStatus:
        """Explain pending nodes at intervals; in between, keep what is known of unchanged nodes."""
        if not any(node.state is State.PENDING for node in task.nodes):
            return task

        early = not self._looked_early and _may_wait_for_gang(task)
        if now < self._next_look and not early:
            nodes = (self._explained.get(node, node) for node in task.nodes)
            return _with_gang(replace(task, nodes=tuple(nodes)), UNSCHEDULABLE, self._gang)

        self._next_look = now + _LOOK_INTERVAL
        self._looked_early = early or self._looked_early
        with suppress(Unreachable):  # the watch retries an unreachable server
            explained = explain_pending(self._session, task)
            self._explained = dict(zip(task.nodes, explained.nodes, strict=True))
            text = explained.causes.get(UNSCHEDULABLE)
            is_gang = any(node.message == text for node in explained.nodes)
            self._gang = text if is_gang else None
            return explained
        return task

    def _diagnose(self, task: TaskStatus, now: float) -> None:
        """Find the cause when the reasons of blocked nodes change, and once in a while."""
        blocked = frozenset(
            (node.name, node.reason) for node in task.nodes if waiting.is_blocked(node)
        )
        if blocked and (blocked != self._blocked or now >= self._next_diagnosis):
            self._next_diagnosis = now + _DIAGNOSIS_INTERVAL
            from kubectl_sky.tasks import doctor  # noqa: PLC0415 -- most starts do not need it

            with suppress(ClusterError):
                self._cause = doctor.why_pending(self._session, task, brief=self._ui.live)
        self._blocked = blocked
        self._cause = self._cause if blocked else ""

    def _report(self, task: TaskStatus, now: float) -> None:
        stage = self._stage_of(task)
        if stage is None:
            self.end(task)
            return
        quiet = stage.normal and now < self._quiet_until
        if stage.text == self._stage or (not self._ui.live and quiet):
            return
        self._stage = stage.text
        if self._ui.live or stage.text not in self._reported:
            self._reported.add(stage.text)
            self._quiet_until = now + _REPORT_INTERVAL
            self._ui.waiting(task.id, self._waiting(task, stage.text + self._suffix))

    def _stage_of(self, task: TaskStatus) -> WaitingStage | None:
        return waiting.stage(task, self._cause)

    def _waiting(self, task: TaskStatus, text: str) -> Waiting:
        """Add the elapsed time and the limit; time in a queue has no limit."""
        if any(node.reason == QUEUED for node in task.nodes):
            return Waiting(text, self._begun_at)
        return Waiting(text, self._started_at, self._limit)


class WaitReporter(StartReporter):
    """Report the stages of a task's start, and on a live line also where it runs then.

    `since` and `timeout` are those of the whole wait.
    """

    def __init__(self, session: Session, ui: UI, since: float, timeout: float | None) -> None:
        super().__init__(session, ui)
        self._since = since
        self._timeout = timeout

    def update(self, task: TaskStatus) -> TaskStatus:
        """Report the current stage; without reasons if they cannot be read."""
        with suppress(ClusterError):
            return super().update(task)
        return task

    def _stage_of(self, task: TaskStatus) -> WaitingStage | None:
        if task.awaits_files:
            return WaitingStage(f"{task.name}: {task.note}", normal=False)
        running = WaitingStage(waiting.progress(task), normal=True) if self._ui.live else None
        return super()._stage_of(task) or running

    def _waiting(self, task: TaskStatus, text: str) -> Waiting:
        return Waiting(text, self._since, self._timeout)
