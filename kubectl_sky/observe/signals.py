"""Collect the signals that explain why a task is not running, by source."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe import queues, reasons
from kubectl_sky.observe.nodes import NodeStatus, State, container, init_statuses, is_ended_by_us
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.ranks import RankActivity, describe_silence
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
from kubectl_sky.workloads import rayservice, registry
from kubectl_sky.workloads.workload import LATE, QUEUED, STOPPED, SUSPEND, Object
from kubectl_sky.workloads.workload import condition as true_condition
from kubectl_sky.workloads.workload import field as field_of

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


class TaskSnapshot(Struct, frozen=True, dict=True):
    """A task's objects at one moment, by kind.

    A kind that the user may not read is absent. `logs` holds the last log lines of nodes, by rank,
    `task` the status by the same objects, if it is known, and `deletions` what PVCs that are being
    deleted wait for, by name. `volumes` has the PVCs of the owner's volumes, by volume name. `lost`
    says why the task that this one waits for can no longer succeed.
    """

    task_id: str
    namespace: str
    objects: Mapping[str, tuple[Object, ...]]
    logs: Mapping[int, tuple[str, ...]] = {}
    task: TaskStatus | None = None
    deletions: Mapping[str, str] = {}
    volumes: Mapping[str, str] = {}
    now: datetime | None = None  # the API server's time, if it is known
    activity: tuple[RankActivity, ...] = ()  # of the nodes of a running task
    lost: str = ""

    @cached_property
    def status(self) -> TaskStatus | None:
        return self.task or next(iter(tasks(self.workloads, self.of(kinds.POD.kind))), None)

    def of(self, kind: str) -> tuple[Object, ...]:
        return self.objects.get(kind, ())

    def named(self, kind: str, name: str) -> Object | None:
        return next((item for item in self.of(kind) if item["metadata"]["name"] == name), None)

    @cached_property
    def workloads(self) -> tuple[Object, ...]:
        objects = (item for kind in registry.KINDS for item in self.of(kind.kind))
        return tuple(item for item in objects if registry.is_root_object(item))

    @cached_property
    def pods(self) -> Mapping[int, Object]:
        if not self.task and not self.workloads:
            return {}
        backend = self.task.workload if self.task else registry.of(self.workloads[0])
        oldest_first = sorted(
            self.of(kinds.POD.kind), key=lambda pod: pod["metadata"]["creationTimestamp"]
        )
        newest = {backend.rank(pod): pod for pod in oldest_first}
        return {rank: newest[rank] for rank in sorted(newest)}

    @cached_property
    def endings(self) -> Mapping[str, Object]:
        """The event that tells how the last pod of an owner ended, by the prefix of its pods.

        Pods that their Job deleted are left out: its own events name them.
        """
        events = self.of(kinds.EVENT.kind)
        endings = dict[str, Object]()
        messages = {event.get("message") for event in events}
        for event in events:
            about = event.get("involvedObject", {})
            reason = event.get("reason", "")
            pod = about.get("name", "")
            owner = pod.rpartition("-")[0]
            is_weak = reason == "Killing" and (
                owner in endings or f"Deleted pod: {pod}" in messages
            )
            if about.get("kind") == kinds.POD.kind and reason in _POD_ENDINGS and not is_weak:
                endings[owner] = event
        return endings

    @cached_property
    def ranks(self) -> Mapping[str, tuple[int, ...]]:
        return {
            item["metadata"].get("uid", ""): tuple(registry.of(item).ranks(item))
            for item in self.workloads
        }


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
    if snapshot.now and snapshot.activity:
        silence = describe_silence(snapshot.activity, snapshot.now)
        yield from [((), Signal(SignalSource.RANKS, "", silence))] if silence else ()

    if snapshot.status:
        yield from _deletion_signals(snapshot.status)
        yield from _task_signals(snapshot, snapshot.status)
    yield from (((), signal) for signal in _pvc_signals(snapshot))


def _queue_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    for workload in snapshot.of("Workload"):
        owners = [owner.get("uid") for owner in workload["metadata"].get("ownerReferences", ())]
        ranks = next((snapshot.ranks[uid] for uid in owners if uid in snapshot.ranks), None)
        if ranks is None:
            continue  # belongs to another task

        conditions = {
            condition.get("type"): condition
            for condition in workload.get("status", {}).get("conditions", ())
        }
        if conditions.get("Admitted", {}).get("status") == "True" or "Finished" in conditions:
            continue

        for kind, status in _NOT_ADMITTED:
            condition = conditions.get(kind, {})
            if condition.get("status") == status:
                reason = condition.get("reason", "")
                message = condition.get("message", "")
                yield ranks, Signal(SignalSource.QUEUE, reason, message)
                break


def _gang_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    ranks = sorted({rank for group_ranks in snapshot.ranks.values() for rank in group_ranks})

    for group in snapshot.of(kinds.POD_GROUP.kind):
        waiting = queues.waiting_group(group)
        if waiting:
            queue = snapshot.named(kinds.VOLCANO_QUEUE.kind, waiting.queue)
            is_limited = waiting.reason != QUEUED or queues.may_limit(queue)
            reason = waiting.reason if is_limited else "Unschedulable"
            yield ranks, Signal(SignalSource.GANG, reason, str(waiting))

    pods = {rank: pod for rank, pod in snapshot.pods.items() if _phase(pod) == "Pending"}
    unscheduled = [rank for rank, pod in pods.items() if not pod.get("spec", {}).get("nodeName")]
    messages = list(filter(None, map(_unschedulable, pods.values())))

    for group in snapshot.of(kinds.GANG.resource):
        members, topology = queues.gang_of(group)
        existing = sum(_phase(pod) in ("Pending", "Running") for pod in snapshot.pods.values())
        if unscheduled and existing < members:
            about = str(members)
            yield unscheduled, Signal(SignalSource.GANG, "Incomplete", str(existing), about=about)
        elif messages and (members or topology):
            text = messages[0]
            yield unscheduled, Signal(SignalSource.GANG, UNSCHEDULABLE, text, about=topology)


def _unschedulable(pod: Object) -> str:
    """Return why the scheduler does not place a pod; empty if it has not tried."""
    for entry in pod.get("status", {}).get("conditions", ()):
        if entry.get("type") == "PodScheduled" and entry.get("reason") == UNSCHEDULABLE:
            return str(entry.get("message"))
    return ""


def _deletion_signals(task: TaskStatus) -> Iterator[tuple[Iterable[int], Signal]]:
    if task.deletion.since:
        text = str(task.deletion)
        step = task.deletion.step
        yield (), Signal(SignalSource.NODE, DELETING, text, about=step)


def _task_signals(
    snapshot: TaskSnapshot, task: TaskStatus
) -> Iterator[tuple[Iterable[int], Signal]]:
    """Yield why nodes failed that left no pod, and which nodes the running ones wait for."""
    if task.incomplete and not task.deletion.since:
        reason = str(task.missing) if task.missing is Missing.NOT_SUBMITTED else "not found"
        yield (), Signal(SignalSource.NODE, reason, task.note)

    for node in task.nodes:
        if node.state is State.FAILED and (not node.pod or node.reason == POD_DELETED):
            yield from _signals_without_pod(snapshot, task, node)
        elif node.awaits_files or (not node.state.ended and reasons.find(node.reason).is_told):
            yield (node.index,), Signal(SignalSource.NODE, node.reason, node.message)
        if node.held_until:
            reason = f"Error {node.exit_code}"
            yield (node.index,), Signal(SignalSource.ENDED, reason, node.message)
            ranks = (node.index,)
            step = task.next_step
            yield ranks, Signal(SignalSource.NODE, HELD, node.held_until, about=step)
        if node.kept_by:
            yield (node.index,), Signal(SignalSource.NODE, POD_KEPT, node.kept_by)

    running = [
        node.index for node in task.nodes if node.state is State.RUNNING and node.exit_code is None
    ]
    pending = [node.name for node in task.nodes if node.state is State.PENDING]
    if running and pending and not task.workload.independent_nodes:
        more = f" and {len(pending) - 4} more" if pending[4:] else ""
        yield running, Signal(SignalSource.BARRIER, "", ", ".join(pending[:4]) + more)


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
        source, reason = _POD_ENDINGS[event["reason"]]
        yield ranks, Signal(source, reason, event.get("message", ""))
    elif node.reason == STOPPED:
        yield (), Signal(SignalSource.NODE, STOPPED, node.message)
    elif node.reason in (JOB_NOT_FOUND, POD_DELETED, POD_NOT_FOUND):
        yield ranks, Signal(SignalSource.NODE, node.reason, node.message)
    else:
        yield ranks, Signal(SignalSource.POD, node.reason, node.message)
        if node.exit_code is not None:
            reason = f"{node.reason or 'Error'} {node.exit_code}"
            yield ranks, Signal(SignalSource.ENDED, reason, node.message)


def _workload_signals(snapshot: TaskSnapshot) -> Iterator[tuple[Iterable[int], Signal]]:
    late = _ranks_that_are_late(snapshot.status)
    for item in filter(_has_cause, snapshot.workloads):
        ranks = snapshot.ranks[item["metadata"].get("uid", "")]
        for condition in item.get("status", {}).get("conditions", ()):
            if condition.get("status") == "True" and condition.get("type") in _ENDINGS:
                reason = condition.get("reason", "")
                message = condition.get("message", "")
                yield ranks, Signal(SignalSource.WORKLOAD, reason, message)
                late.difference_update(ranks)
        if field_of(item, registry.of(item).suspend_path or SUSPEND):
            queue = item["metadata"].get("labels", {}).get(names.QUEUE, "")
            yield ranks, Signal(SignalSource.WORKLOAD, "Suspended", queue)
    if late:  # by the times of an object whose conditions do not name the deadline
        yield late, Signal(SignalSource.WORKLOAD, LATE, "")


def _controller_signals(
    snapshot: TaskSnapshot, pods: Mapping[int, Object]
) -> Iterator[tuple[Iterable[int], Signal]]:
    """Yield why controllers have not created all pods."""
    controllers = {item["metadata"]["name"]: item for item in snapshot.of(kinds.JOB.kind)}
    controllers |= {item["metadata"]["name"]: item for item in snapshot.workloads}
    for name, item in controllers.items():
        missing = [
            rank
            for rank in snapshot.ranks.get(item["metadata"].get("uid", ""), ())
            if rank not in pods
        ]
        if pods and not missing:
            continue
        for event in _events(snapshot, name):
            # Each message names a different pod that was never created.
            message = re.sub(r'pods "[^"]*"', "pods", event.get("message", ""))
            yield missing, Signal(SignalSource.WORKLOAD_EVENT, event.get("reason", ""), message)


def _ranks_that_are_late(task: TaskStatus | None) -> set[int]:
    """Return the nodes whose status says that they ran longer than allowed."""
    nodes = task.nodes if task else ()
    return {node.index for node in nodes if node.state is State.FAILED and node.reason == LATE}


def _has_cause(item: Object) -> bool:
    """Return whether its conditions explain a failure: not if a client has ended it."""
    return not {names.STOPPED_FOR, names.MAIN_ENDED} & {*item["metadata"].get("annotations", {})}


def _scheduling_signals(snapshot: TaskSnapshot, pod: Object) -> Iterator[Signal]:
    status = pod.get("status", {})
    for condition in status.get("conditions", ()):
        kind = condition.get("type")
        message = condition.get("message", "")
        if kind == "PodScheduled" and condition.get("status") == "False":
            signals = _split_scheduler_message(condition.get("reason", ""), message)
            yield from _with_all_resources(snapshot, pod, list(signals))
        if kind == "DisruptionTarget" and condition.get("status") == "True":
            yield Signal(SignalSource.POD, condition.get("reason", ""), message)

    if status.get("reason") and not is_ended_by_us(pod):
        yield Signal(SignalSource.POD, status["reason"], status.get("message", ""))

    spec = pod.get("spec", {})
    created = age.parse(pod["metadata"].get("creationTimestamp"))
    is_new = snapshot.now and created and snapshot.now - created < _SCHEDULER_SECONDS
    is_scheduled = bool(status.get("conditions") or spec.get("nodeName"))
    if _phase(pod) == "Pending" and not (is_scheduled or is_new):
        scheduler = spec.get("schedulerName", "default-scheduler")
        yield Signal(SignalSource.SCHEDULER, "Unseen", scheduler)


def _kubelet_signals(snapshot: TaskSnapshot, pod: Object) -> Iterator[Signal]:
    """Yield warning events of a pod that has not started, and whether its kubelet is gone.

    Scheduler events are skipped: the pod's PodScheduled condition has the same message.
    """
    if _phase(pod) in ("Running", "Succeeded"):
        return
    name = pod["metadata"]["name"]
    host = pod.get("spec", {}).get("nodeName")
    cluster_node = snapshot.named(kinds.NODE.kind, host) if host else None
    if _phase(pod) == "Pending" and cluster_node and not true_condition(cluster_node, "Ready"):
        yield Signal(SignalSource.POD_EVENT, "NodeNotReady", "", about=str(host))
    ignored = ["FailedScheduling"]
    if _phase(pod) == "Pending" and not _has_restarted(pod):  # probes may still succeed
        ignored.append("Unhealthy")
    for event in _events(snapshot, name, warnings=False):
        is_telling = event.get("type") == "Warning" or event.get("reason") in _AUTOSCALER
        if is_telling and event.get("reason") not in ignored:
            message = str(event.get("message", "")).replace(name, "the pod")
            yield Signal(SignalSource.POD_EVENT, event.get("reason", ""), message)


def _has_restarted(pod: Object) -> bool:
    status = pod.get("status", {})
    lists = (status.get(name) or () for name in ("initContainerStatuses", "containerStatuses"))
    return any(item.get("restartCount") for item in chain(*lists))


def _with_all_resources(
    snapshot: TaskSnapshot, pod: Object, signals: Sequence[Signal]
) -> Iterator[Signal]:
    """Yield one signal for all insufficient resources, also those that the scheduler left out.

    It reports only the first reason why a cluster node does not fit.
    """
    short = [signal for signal in signals if signal.message.startswith(_INSUFFICIENT)]
    named = resources.ACCELERATORS if any("node affinity" in it.message for it in signals) else ()
    sizes = resources.too_large(pod, snapshot.of(kinds.NODE.kind))
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


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))


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


def _container_signals(pod: Object) -> Iterator[Signal]:
    status = pod.get("status", {})
    ended = "terminated" in container(pod).get("state", {})  # sidecars end after it
    started = init_statuses(pod) if ended else status.get("initContainerStatuses") or ()
    init_containers = [(True, item) for item in started]
    containers = [(False, item) for item in status.get("containerStatuses") or ()]

    for init, item in init_containers + containers:
        about = f"init container {item['name']}" if init else ""
        if not init and item["name"] != names.CONTAINER:
            if is_ended_by_us(pod):
                continue
            about = f"container {item['name']}"

        state = item.get("state", {})
        if "waiting" in state:
            waiting = state["waiting"]
            message = _without_pod_name(waiting.get("message", ""))
            yield Signal(SignalSource.WAITING, waiting.get("reason", ""), message, about=about)

        restarts = "waiting" in state or ("running" in state and not item.get("ready", True))
        if restarts:
            state = item.get("lastState", {})
        end = state.get("terminated")
        if end and (
            end.get("exitCode") or end.get("reason") == "OOMKilled" or (restarts and not init)
        ):
            source = SignalSource.INIT_ENDED if init else SignalSource.ENDED
            reason = f"{end.get('reason', 'Error')} {end.get('exitCode')}"
            message = _without_pod_name((end.get("message") or "").strip())
            yield Signal(source, reason, message, about=about)


def _ended_signals(snapshot: TaskSnapshot, pod: Object) -> Iterator[Signal]:
    """Yield the signals of a pod's containers; the end of one that a probe killed names the probe.

    Whatever its exit code: a program may end by itself when the kubelet sends SIGTERM.
    """
    status = container(pod)
    states = (status.get(state, {}).get("terminated") for state in ("state", "lastState"))
    end: Object = next(filter(None, states), {})
    started = end.get("startedAt") or ""

    name = pod["metadata"]["name"]
    messages = [
        event.get("message") or ""
        for event in snapshot.of(kinds.EVENT.kind)
        if event.get("involvedObject", {}).get("name") == name
        and (event.get("lastTimestamp") or "") >= started
    ]

    probe = next((match[1] for text in messages if (match := _PROBE_KILLS.match(text))), "")
    failures = (text for text in messages if text.lower().startswith(f"{probe} probe failed: "))
    about = _PROBE_REQUEST.sub("", next(failures, "").partition(": ")[2])

    for signal in _container_signals(pod):
        if probe and signal.source is SignalSource.ENDED and not signal.about:
            signal = replace(signal, source=SignalSource.PROBE, reason=probe, about=about)
        yield signal


def _ray_head_signals(
    snapshot: TaskSnapshot, pod: Object, signals: Iterable[Signal]
) -> Iterator[Signal]:
    """Yield the signals of a pod's containers, and why a Ray head is not ready.

    A throttled head answers the kubelet's probes too late, long after its start.
    """
    if (pod["metadata"].get("labels") or {}).get(_RAY_NODE_TYPE) != "head":
        yield from signals
        return
    for signal in signals:
        killed = signal.source is SignalSource.ENDED and _KILLED.fullmatch(signal.reason)
        yield replace(signal, source=SignalSource.RAY_HEAD) if killed else signal
    started = age.parse(container(pod).get("state", {}).get("running", {}).get("startedAt"))
    limit = resources.container_limit(pod, names.CONTAINER, "cpu")
    if not started or not limit or amount_of(limit) >= amount_of(rayservice.HEAD_REQUESTS["cpu"]):
        return
    for event in _events(snapshot, pod["metadata"]["name"]):
        last = age.parse(event.get("lastTimestamp"))
        if event.get("reason") == "Unhealthy" and last and last - started >= _RAY_START:
            yield Signal(SignalSource.RAY_HEAD, "Unhealthy", limit)


def _without_pod_name(message: str) -> str:
    """Remove the pod's name and uid, to report ranks with the same problem together."""
    return re.sub(r' \(pod: "[^"]*", container: [^)]*\)| pod=\S+| container=\S+', "", message)


def _pvc_signals(snapshot: TaskSnapshot) -> Iterator[Signal]:
    for pvc in snapshot.of("PersistentVolumeClaim"):
        phase = pvc.get("status", {}).get("phase")
        name = pvc["metadata"]["name"]
        if phase == "Bound":
            continue
        events = list(_events(snapshot, name, warnings=False))
        for event in events:
            message = event.get("message", "")
            yield Signal(SignalSource.CLAIM, event.get("reason", ""), message, about=name)
        if not events:
            yield Signal(SignalSource.CLAIM, str(phase), "", about=name)


def _events(snapshot: TaskSnapshot, name: str, warnings: bool = True) -> Iterator[Object]:
    """Yield the latest event of an object for each reason, oldest reason first."""
    latest: dict[str, Object] = {}
    for event in snapshot.of("Event"):
        matches = event.get("involvedObject", {}).get("name") == name
        if matches and (event.get("type") == "Warning" or not warnings):
            latest[event.get("reason", "")] = event
    yield from latest.values()
