"""Collect the signals that explain why a task is not running, by source."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe import queues, reasons
from kubectl_sky.observe.hangs import find_hang
from kubectl_sky.observe.nodes import (
    NodeStatus,
    State,
    container,
    init_statuses,
    is_ended_by_us,
    read_disruption,
)
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.ranks import RankActivity
from kubectl_sky.observe.reasons import (
    DELETING,
    HELD,
    JOB_NOT_FOUND,
    POD_DELETED,
    POD_KEPT,
    POD_NOT_FOUND,
    UNSCHEDULABLE,
)
from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.plan import resources
from kubectl_sky.plan.resources import amount_of
from kubectl_sky.words import age, bounded, kinds, names
from kubectl_sky.words.core_objects import Event
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.objects import NO_CONDITION, Object, find_true
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import rayservice, registry
from kubectl_sky.workloads.workload import LATE, MEETS_NOBODY, QUEUED, STOPPED

T = TypeVar("T", bound=Object)

_REASON_ITEM = re.compile(r"(?:^|, )(\d+) (?=[A-Za-z])")
_NODE_TOTAL = re.compile(r"^\d+/(\d+) nodes are (?:un)?available: ")  # Volcano: unavailable
_PREEMPTION = re.compile(r"(?:\. no new claims to deallocate)?[.,] ?preemption: .*$", re.DOTALL)

_RAY_NODE_TYPE = "ray.io/node-type"  # a label of KubeRay
_RAY_START = timedelta(minutes=1)  # a head with one CPU answers within half of it
_SCHEDULER_SECONDS = timedelta(seconds=5)  # that a scheduler may take to see a pod
_PROBE_KILLS = re.compile(f"Container {names.CONTAINER} failed (startup|liveness) probe")
_PROBE_REQUEST = re.compile(r'Get "[^"]*": |dial tcp \S+: connect: ')
_KILLED = re.compile(r"OOMKilled \d+|\w+ 137")
_INSUFFICIENT = "Insufficient "
_AUTOSCALER = ("NotTriggerScaleUp", "TriggeredScaleUp")  # reasons of events that warn of nothing
_ENDINGS = ("Failed", "FailureTarget")
# Conditions of a Workload that explain why it is not admitted, each with the relevant status.
_NOT_ADMITTED = (("Preempted", "True"), ("QuotaReserved", "False"), ("Admitted", "False"))


class SignalSource(StrEnum):
    """Where a symptom comes from."""

    WORKLOAD = "workload"  # a condition of the Job, or that it is suspended
    WORKLOAD_EVENT = "workload event"  # an event of the controller that creates the pods
    SCHEDULER = "scheduler"  # one reason why cluster nodes do not fit
    POD = "pod"  # why the pod itself failed: Evicted, DeadlineExceeded
    POD_EVENT = "pod event"  # the kubelet: volumes, probes, the sandbox
    RANKS = "ranks"  # the nodes of a running task, compared
    NODE = "node"  # the state of a node of the task, or of the whole task
    CLAIM = "claim"  # an event of a PersistentVolumeClaim, or its phase
    WAITING = "waiting"  # a container that is not starting
    ENDED = "ended"  # a container that failed: its reason and exit code
    INIT_ENDED = "init ended"  # an init container that failed
    PROBE = "probe"  # a container that a probe has killed: the kind of the probe
    RAY_HEAD = "ray head"  # the head of a Ray cluster was killed, or does not answer
    LOG = "log"  # the last lines of a container that failed
    BARRIER = "barrier"  # running nodes wait for nodes that have not started
    QUEUE = "queue"  # Kueue's Workload
    GANG = "gang"  # a PodGroup of Kubernetes or Volcano


# Reasons of events that tell how a pod ended, and what the pod itself would show.
_POD_ENDINGS = {
    "Preempted": (SignalSource.POD, "PreemptionByScheduler"),
    "Evicted": (SignalSource.POD, "Evicted"),
    "TaintManagerEviction": (SignalSource.POD, "DeletionByTaintManager"),
    "Killing": (SignalSource.NODE, POD_DELETED),
}


class Signal(Struct, frozen=True):
    """One symptom from one source, and the ranks of the nodes it affects."""

    source: SignalSource
    reason: str
    message: str
    ranks: tuple[int, ...] = ()
    about: str = ""  # the affected object, or how many cluster nodes: `2/3`


CLAIM_MISSING = "ResourceClaimNotFound"  # reason of a signal
ALL_PODS = "pods of all namespaces"  # a key of the objects of a snapshot


def key_of(kind: Kind) -> str:
    """Return the key of a kind in a snapshot: there are two kinds of the name PodGroup."""
    return kind.resource if kind.group == kinds.GANG.group else kind.kind


def select(objects: Mapping[str, Iterable[Object]], kind: ReadKind[T]) -> tuple[T, ...]:
    """Return the objects of a kind from a snapshot's; none if they have not been read."""
    items = objects.get(key_of(kind), ())
    return tuple(item for item in items if isinstance(item, kind.shape))


class TaskSnapshot(Struct, frozen=True, dict=True):
    """A task's objects at one moment, and what else is known of it."""

    task_id: str
    namespace: str
    objects: Mapping[str, tuple[Object, ...]]  # by kind; without kinds that the user may not read
    logs: Mapping[int, tuple[str, ...]] = {}  # the last log lines of nodes, by rank
    task: TaskStatus | None = None  # the status by the same objects, if it is known
    deletions: Mapping[str, str] = {}  # what PVCs that are being deleted wait for, by name
    volumes: Mapping[str, str] = {}  # the PVCs of the owner's volumes, by volume name
    now: datetime | None = None  # the API server's time, if it is known
    activity: tuple[RankActivity, ...] = ()  # of the nodes of a running task
    lost: str = ""  # why the task that this one waits for can no longer succeed
    is_due: bool = False  # whether that has succeeded

    @cached_property
    def status(self) -> TaskStatus | None:
        return self.task or next(iter(tasks(self.workloads, self.of(kinds.POD))), None)

    @property
    def recovers(self) -> bool:
        """Whether nodes that the cluster takes away start again."""
        return self.status is not None and self.status.recovers

    def of(self, kind: ReadKind[T]) -> tuple[T, ...]:
        return select(self.objects, kind)

    @property
    def running(self) -> tuple[Pod, ...] | None:
        """The unfinished pods of all namespaces; None if they have not been read."""
        items = self.objects.get(ALL_PODS)
        return None if items is None else tuple(it for it in items if isinstance(it, Pod))

    def named(self, kind: ReadKind[T], name: str) -> T | None:
        return next((item for item in self.of(kind) if item.metadata.name == name), None)

    @cached_property
    def workloads(self) -> tuple[TaskObject, ...]:
        objects = (item for kind in registry.KINDS for item in self.of(kind))
        return tuple(item for item in objects if registry.is_root_object(item))

    @cached_property
    def pods(self) -> Mapping[int, Pod]:
        if not self.task and not self.workloads:
            return {}
        backend = self.task.workload if self.task else registry.of(self.workloads[0])
        oldest_first = sorted(self.of(kinds.POD), key=lambda pod: pod.metadata.creation_timestamp)
        newest = {backend.rank(pod): pod for pod in oldest_first}
        return {rank: newest[rank] for rank in sorted(newest)}

    @cached_property
    def endings(self) -> Mapping[str, Event]:
        """The event that tells how the last pod of an owner ended, by the prefix of its pods.

        Pods that their Job deleted are left out: its own events name them.
        """
        events = self.of(kinds.EVENT)
        endings = dict[str, Event]()
        messages = {event.message for event in events}
        for event in events:
            about = event.involved_object
            reason = event.reason
            pod = about.name
            owner = pod.rpartition("-")[0]
            is_weak = reason == "Killing" and (
                owner in endings or f"Deleted pod: {pod}" in messages
            )
            if about.kind == kinds.POD.kind and reason in _POD_ENDINGS and not is_weak:
                endings[owner] = event
        return endings

    @cached_property
    def ranks(self) -> Mapping[str, tuple[int, ...]]:
        return {item.metadata.uid: tuple(registry.of(item).ranks(item)) for item in self.workloads}


def find_signals(snapshot: TaskSnapshot) -> list[Signal]:
    """Return each distinct symptom once, with all ranks it affects."""
    ranks: dict[Signal, set[int]] = defaultdict(set)
    for about, signal in _all_signals(snapshot):
        ranks[signal].update(about)
    return [replace(merged, ranks=tuple(sorted(affected))) for merged, affected in ranks.items()]


def _all_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    pods = snapshot.pods
    yield from _queue_signals(snapshot)
    gangs = list(_gang_signals(snapshot))
    yield from gangs
    yield from _workload_signals(snapshot)
    yield from _controller_signals(snapshot, pods)

    for rank, pod in pods.items():
        parts = (
            _scheduling_signals(snapshot, pod),
            _ray_head_signals(snapshot, pod, _ended_signals(snapshot, pod)),
            _kubelet_signals(snapshot, pod),
        )
        for signal in chain(*parts):
            waits = not signal.about or signal.message.startswith(_INSUFFICIENT)
            if not (gangs and waits and signal.source is SignalSource.SCHEDULER):
                yield (rank,), signal  # else the symptom of the gang has the sum

    for rank, lines in snapshot.logs.items():
        yield (rank,), Signal(SignalSource.LOG, "", "\n".join(lines))
    hang = find_hang(snapshot.activity, snapshot.now) if snapshot.now else None
    if hang:
        yield hang.ranks, Signal(SignalSource.RANKS, "", hang.text, about=hang.more)

    if snapshot.status:
        yield from _deletion_signals(snapshot.status)
        yield from _task_signals(snapshot, snapshot.status)
    yield from (((), signal) for signal in _pvc_signals(snapshot))


def _queue_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    for workload in snapshot.of(kinds.QUEUED_WORKLOAD):
        owners = [owner.uid for owner in workload.metadata.owner_references]
        ranks = next((snapshot.ranks[uid] for uid in owners if uid in snapshot.ranks), None)
        if ranks is None:
            continue  # belongs to another task

        conditions = {condition.type: condition for condition in workload.status.conditions}
        if conditions.get("Admitted", NO_CONDITION).status == "True" or "Finished" in conditions:
            continue

        for kind, status in _NOT_ADMITTED:
            condition = conditions.get(kind, NO_CONDITION)
            if condition.status == status:
                reason = condition.reason
                message = condition.message
                yield ranks, Signal(SignalSource.QUEUE, reason, message)
                break


def _gang_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    ranks = sorted({rank for group_ranks in snapshot.ranks.values() for rank in group_ranks})

    for group in snapshot.of(kinds.POD_GROUP):
        waiting = queues.waiting_group(group)
        if waiting:
            queue = snapshot.named(kinds.VOLCANO_QUEUE, waiting.queue)
            is_limited = waiting.reason != QUEUED or queues.may_limit(queue)
            reason = waiting.reason if is_limited else "Unschedulable"
            yield ranks, Signal(SignalSource.GANG, reason, str(waiting))

    pods = {rank: pod for rank, pod in snapshot.pods.items() if _phase(pod) == "Pending"}
    unscheduled = [rank for rank, pod in pods.items() if not pod.spec.node_name]
    messages = list(filter(None, map(_unschedulable, pods.values())))

    for gang in snapshot.of(kinds.GANG):
        members, topology = queues.gang_of(gang)
        existing = sum(_phase(pod) in ("Pending", "Running") for pod in snapshot.pods.values())
        if unscheduled and existing < members:
            about = str(members)
            yield unscheduled, Signal(SignalSource.GANG, "Incomplete", str(existing), about=about)
        elif messages and (members or topology):
            text = messages[0]
            yield unscheduled, Signal(SignalSource.GANG, UNSCHEDULABLE, text, about=topology)


def _unschedulable(pod: Pod) -> str:
    """Return why the scheduler does not place a pod; empty if it has not tried."""
    for entry in pod.status.conditions:
        if entry.type == "PodScheduled" and entry.reason == UNSCHEDULABLE:
            return entry.message
    return ""


def _deletion_signals(task: TaskStatus) -> Iterator[tuple[Iterable[int], Signal]]:
    if task.deletion.since:
        text = str(task.deletion)
        step = task.deletion.step
        yield (), Signal(SignalSource.NODE, DELETING, text, about=step)


def _task_signals(
    snapshot: TaskSnapshot, task: TaskStatus
) -> Iterator[tuple[Iterable[int], Signal]]:
    """Yield why nodes failed that left no pod, and what others wait for."""
    if task.incomplete and not task.deletion.since:
        reason = str(task.missing) if task.missing is Missing.NOT_SUBMITTED else "not found"
        yield (), Signal(SignalSource.NODE, reason, task.note)

    for node in task.nodes:
        if node.state is State.FAILED and (not node.pod or node.reason == POD_DELETED):
            yield from _signals_without_pod(snapshot, task, node)
        elif _is_told(node):
            yield (node.index,), Signal(SignalSource.NODE, node.reason, node.message)
        if node.held_until:
            reason = f"Error {node.exit_code}"
            yield (node.index,), Signal(SignalSource.ENDED, reason, node.message)
            ranks = (node.index,)
            step = task.next_step
            yield ranks, Signal(SignalSource.NODE, HELD, node.held_until, about=step)
        if node.kept_by:
            yield (node.index,), Signal(SignalSource.NODE, POD_KEPT, node.kept_by)

    yield from _meeting_signals(task)


def _is_told(node: NodeStatus) -> bool:
    """Return whether the reason of a node with a pod explains why it waits, or ends."""
    is_told = not node.state.ended and reasons.find(node.reason).is_told
    return is_told or node.awaits_files or node.reason == MEETS_NOBODY


def _meeting_signals(task: TaskStatus) -> Iterator[tuple[Iterable[int], Signal]]:
    """Yield which nodes those wait for that have started."""
    running = [
        node.index
        for node in task.nodes
        if node.awaits_nodes or (node.state is State.RUNNING and node.exit_code is None)
    ]
    pending = [
        node.name for node in task.nodes if node.state is State.PENDING and not node.awaits_nodes
    ]
    if running and pending and not task.workload.independent_nodes:
        more = f" and {len(pending) - 4} more" if pending[4:] else ""
        yield running, Signal(SignalSource.BARRIER, "", ", ".join(pending[:4]) + more)

    for node in task.nodes if not pending else ():
        if node.awaits_nodes and node.message:
            yield (node.index,), Signal(SignalSource.NODE, node.reason, node.message)


def _signals_without_pod(
    snapshot: TaskSnapshot, task: TaskStatus, node: NodeStatus
) -> Iterator[tuple[Iterable[int], Signal]]:
    """Yield the cause of a failed node whose pod was deleted, by the pod's events if need be."""
    first = task.first_failure
    ranks = (node.index,)
    if node.reason == STOPPED and first and first.reason != STOPPED:
        return  # the failure that stopped it is the cause

    endings = snapshot.endings if node.reason in (POD_NOT_FOUND, STOPPED) else {}
    event = endings.get(node.job) or endings.get(f"{node.job}-{node.index}")

    if event:
        source, reason = _POD_ENDINGS[event.reason]
        yield ranks, Signal(source, reason, event.message)
    elif node.reason == STOPPED:
        yield (), Signal(SignalSource.NODE, STOPPED, node.message)
    elif node.reason in (JOB_NOT_FOUND, MEETS_NOBODY, POD_DELETED, POD_NOT_FOUND):
        yield ranks, Signal(SignalSource.NODE, node.reason, node.message)
    else:
        yield ranks, Signal(SignalSource.POD, node.reason, node.message)
        if node.exit_code is not None:
            reason = f"{node.reason or 'Error'} {node.exit_code}"
            yield ranks, Signal(SignalSource.ENDED, reason, node.message)


def _workload_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    late = _ranks_that_are_late(snapshot.status)
    for item in filter(_has_cause, snapshot.workloads):
        ranks = snapshot.ranks[item.metadata.uid]
        for condition in item.status.conditions:
            if condition.status == "True" and condition.type in _ENDINGS:
                reason = condition.reason
                message = condition.message
                yield ranks, Signal(SignalSource.WORKLOAD, reason, message)
                late.difference_update(ranks)
        if registry.of(item).is_suspended(item):
            queue = item.metadata.labels.get(names.QUEUE, "")
            yield ranks, Signal(SignalSource.WORKLOAD, "Suspended", queue)
    if late:  # by the times of an object whose conditions do not name the deadline
        yield late, Signal(SignalSource.WORKLOAD, LATE, "")


def _controller_signals(
    snapshot: TaskSnapshot, pods: Mapping[int, Pod]
) -> Iterator[tuple[Iterable[int], Signal]]:
    """Yield why controllers have not created all pods."""
    controllers: dict[str, TaskObject] = {
        item.metadata.name: item for item in snapshot.of(kinds.JOB)
    }
    controllers |= {item.metadata.name: item for item in snapshot.workloads}
    for name, item in controllers.items():
        missing = [rank for rank in snapshot.ranks.get(item.metadata.uid, ()) if rank not in pods]
        if pods and not missing:
            continue
        for event in _events(snapshot, name):
            # Each message names a different pod that was never created.
            message = re.sub(r'pods "[^"]*"', "pods", event.message)
            yield missing, Signal(SignalSource.WORKLOAD_EVENT, event.reason, message)


def _ranks_that_are_late(task: TaskStatus | None) -> set[int]:
    """Return the nodes whose status says that they ran longer than allowed."""
    nodes = task.nodes if task else ()
    return {node.index for node in nodes if node.state is State.FAILED and node.reason == LATE}


def _has_cause(item: TaskObject) -> bool:
    """Return whether its conditions explain a failure: not if a client has ended it."""
    return not {names.STOPPED_FOR, names.MAIN_ENDED} & {*item.metadata.annotations}


def _scheduling_signals(snapshot: TaskSnapshot, pod: Pod) -> Iterator[Signal]:
    status = pod.status
    for condition in status.conditions:
        kind = condition.type
        message = condition.message
        if kind == "PodScheduled" and condition.status == "False":
            signals = _split_scheduler_message(condition.reason, message)
            yield from _with_all_resources(snapshot, pod, list(signals))
        if kind == "DisruptionTarget" and condition.status == "True":
            yield Signal(SignalSource.POD, read_disruption(pod).reason, message)

    if status.reason and not is_ended_by_us(pod):
        yield Signal(SignalSource.POD, status.reason, status.message)

    spec = pod.spec
    created = age.parse(pod.metadata.creation_timestamp)
    is_new = snapshot.now and created and snapshot.now - created < _SCHEDULER_SECONDS
    is_handled = bool(status.conditions or spec.node_name)
    if _phase(pod) != "Pending" or is_handled:
        return
    missing = _list_missing_claims(snapshot, pod)  # the scheduler waits for them without a word
    for name in missing:
        yield Signal(SignalSource.SCHEDULER, CLAIM_MISSING, name)
    if not (missing or is_new):
        scheduler = spec.scheduler_name or "default-scheduler"
        yield Signal(SignalSource.SCHEDULER, "Unseen", scheduler)


def _list_missing_claims(snapshot: TaskSnapshot, pod: Pod) -> list[str]:
    """Return the ResourceClaims that a pod names and that do not exist, if those were read."""
    if kinds.RESOURCE_CLAIM.kind not in snapshot.objects:
        return []
    existing = {claim.metadata.name for claim in snapshot.of(kinds.RESOURCE_CLAIM)}
    named = (item.resource_claim_name for item in pod.spec.resource_claims or ())
    return [name for name in named if name and name not in existing]


def _kubelet_signals(snapshot: TaskSnapshot, pod: Pod) -> Iterator[Signal]:
    """Yield warning events of a pod that has not started, and whether its kubelet is gone.

    Scheduler events are skipped: the pod's PodScheduled condition has the same message.
    """
    if _phase(pod) in ("Running", "Succeeded") or pod.status.reason:
        return  # what the kubelet says of its end is the cause
    name = pod.metadata.name
    host = pod.spec.node_name
    cluster_node = snapshot.named(kinds.NODE, host) if host else None
    if (
        _phase(pod) == "Pending"
        and cluster_node
        and not find_true(cluster_node.status.conditions, "Ready")
    ):
        yield Signal(SignalSource.POD_EVENT, "NodeNotReady", "", about=host)
    ignored = ["FailedScheduling"]
    if _phase(pod) == "Pending" and not _has_restarted(pod):  # probes may still succeed
        ignored.append("Unhealthy")
    for event in _events(snapshot, name, warnings=False):
        is_telling = event.type == "Warning" or event.reason in _AUTOSCALER
        if is_telling and event.reason not in ignored:
            message = event.message.replace(name, "the pod")
            yield Signal(SignalSource.POD_EVENT, event.reason, message)


def _has_restarted(pod: Pod) -> bool:
    statuses = chain(pod.status.init_container_statuses, pod.status.container_statuses)
    return any(item.restart_count for item in statuses)


def _with_all_resources(
    snapshot: TaskSnapshot, pod: Pod, signals: Sequence[Signal]
) -> Iterator[Signal]:
    """Yield one signal for all insufficient resources, also those that the scheduler left out.

    It reports only the first reason why a cluster node does not fit.
    """
    short = [signal for signal in signals if signal.message.startswith(_INSUFFICIENT)]
    named = resources.ACCELERATORS if any("node affinity" in it.message for it in signals) else ()
    sizes = resources.too_large(pod.spec, snapshot.of(kinds.NODE))
    oversized = [name for name in sizes if name not in named]

    yield from (signal for signal in signals if signal not in short)
    scarce = [signal.message.removeprefix(_INSUFFICIENT) for signal in short]
    scarce += [name for name in oversized if name not in scarce]
    counts = [signal.about for signal in signals if signal.about]
    if not scarce or not counts:
        yield from short
        return

    total = counts[0].rpartition("/")[2]
    most = max((signal.about for signal in short), key=_count, default="")
    about = f"{total}/{total}" if oversized else most
    message = _INSUFFICIENT + ", ".join(scarce)
    yield Signal(SignalSource.SCHEDULER, signals[0].reason, message, about=about)


def _count(about: str) -> int:
    return bounded.integer(about.partition("/")[0])


def _phase(pod: Pod) -> str:
    return pod.status.phase


def _split_scheduler_message(reason: str, message: str) -> Iterator[Signal]:
    """Split the scheduler's message into reasons with their cluster node counts."""
    total = _NODE_TOTAL.match(message)
    if not total:
        yield Signal(SignalSource.SCHEDULER, reason, message)
        return
    text = _PREEMPTION.sub("", message[total.end() :]).rstrip(".")
    items = list(_REASON_ITEM.finditer(text))
    if not items:
        yield Signal(SignalSource.SCHEDULER, reason, text, about=f"{total[1]}/{total[1]}")
    ends = [item.start() for item in items[1:]] + [len(text)]
    for item, end in zip(items, ends[: len(items)], strict=True):
        about = f"{item[1]}/{total[1]}"
        yield Signal(SignalSource.SCHEDULER, reason, text[item.end() : end], about=about)


def _container_signals(pod: Pod) -> Iterator[Signal]:
    status = pod.status
    ended = container(pod).state.terminated  # sidecars end after it
    started = init_statuses(pod) if ended else status.init_container_statuses
    init_containers = [(True, item) for item in started]
    containers = [(False, item) for item in status.container_statuses]

    for init, item in init_containers + containers:
        about = f"init container {item.name}" if init else ""
        if not init and item.name != names.CONTAINER:
            if is_ended_by_us(pod):
                continue
            about = f"container {item.name}"

        state = item.state
        if state.waiting:
            waiting = state.waiting
            message = _without_pod_name(waiting.message)
            yield Signal(SignalSource.WAITING, waiting.reason, message, about=about)

        restarts = bool(state.waiting or (state.running and not item.ready))
        if restarts:
            state = item.last_state
        end = state.terminated
        if end and (end.exit_code or end.reason == "OOMKilled" or (restarts and not init)):
            source = SignalSource.INIT_ENDED if init else SignalSource.ENDED
            reason = f"{end.reason or 'Error'} {end.exit_code}"
            message = _without_pod_name(end.message.strip())
            yield Signal(source, reason, message, about=about)


def _ended_signals(snapshot: TaskSnapshot, pod: Pod) -> Iterator[Signal]:
    """Yield the signals of a pod's containers; the end of one that a probe killed names the probe.

    Whatever its exit code: a program may end by itself when the kubelet sends SIGTERM.
    """
    status = container(pod)
    end = status.state.terminated or status.last_state.terminated
    started = (end and end.started_at) or ""

    name = pod.metadata.name
    messages = [
        event.message
        for event in snapshot.of(kinds.EVENT)
        if event.involved_object.name == name and (event.last_timestamp or "") >= started
    ]

    probe = next((match[1] for text in messages if (match := _PROBE_KILLS.match(text))), "")
    failures = (text for text in messages if text.lower().startswith(f"{probe} probe failed: "))
    about = _PROBE_REQUEST.sub("", next(failures, "").partition(": ")[2])

    for signal in _container_signals(pod):
        if probe and signal.source is SignalSource.ENDED and not signal.about:
            signal = replace(signal, source=SignalSource.PROBE, reason=probe, about=about)
        yield signal


def _ray_head_signals(
    snapshot: TaskSnapshot, pod: Pod, signals: Iterable[Signal]
) -> Iterator[Signal]:
    """Yield the signals of a pod's containers, and why a Ray head is not ready.

    A throttled head answers the kubelet's probes too late, long after its start.
    """
    if pod.metadata.labels.get(_RAY_NODE_TYPE) != "head":
        yield from signals
        return
    for signal in signals:
        killed = signal.source is SignalSource.ENDED and _KILLED.fullmatch(signal.reason)
        yield replace(signal, source=SignalSource.RAY_HEAD) if killed else signal
    running = container(pod).state.running
    started = age.parse(running.started_at) if running else None
    limit = resources.container_limit(pod.spec, names.CONTAINER, "cpu")
    if not started or not limit or amount_of(limit) >= amount_of(rayservice.HEAD_REQUESTS["cpu"]):
        return
    for event in _events(snapshot, pod.metadata.name):
        last = age.parse(event.last_timestamp)
        if event.reason == "Unhealthy" and last and last - started >= _RAY_START:
            yield Signal(SignalSource.RAY_HEAD, "Unhealthy", limit)


def _without_pod_name(message: str) -> str:
    """Remove the pod's name and uid, to report ranks with the same problem together."""
    return re.sub(r' \(pod: "[^"]*", container: [^)]*\)| pod=\S+| container=\S+', "", message)


def _pvc_signals(snapshot: TaskSnapshot) -> Iterator[Signal]:
    for pvc in snapshot.of(kinds.PVC):
        phase = pvc.status.phase
        name = pvc.metadata.name
        if phase == "Bound":
            continue
        events = list(_events(snapshot, name, warnings=False))
        for event in events:
            message = event.message
            yield Signal(SignalSource.CLAIM, event.reason, message, about=name)
        if not events:
            yield Signal(SignalSource.CLAIM, phase, "", about=name)


def _events(snapshot: TaskSnapshot, name: str, warnings: bool = True) -> Iterator[Event]:
    """Yield the latest event of an object for each reason, oldest reason first."""
    latest: dict[str, Event] = {}
    for event in snapshot.of(kinds.EVENT):
        matches = event.involved_object.name == name
        if matches and (event.type == "Warning" or not warnings):
            latest[event.reason] = event
    yield from latest.values()
