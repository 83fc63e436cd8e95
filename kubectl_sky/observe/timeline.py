"""Compute when each node of a task was queued, scheduled, started and run.

All times are the cluster's, in whole seconds: of conditions, container states and events. Events
expire: what nothing tells is unknown, never guessed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe.nodes import NodeStatus, State, container, init_statuses
from kubectl_sky.observe.setups import ContainerKey, SetupTimes, container_key
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age, kinds, names
from kubectl_sky.words.core_objects import Event
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.objects import Condition
from kubectl_sky.words.pod_objects import Pod, Terminated
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads.workload import QUEUED

_MAIN = f"spec.containers{{{names.CONTAINER}}}"  # what an event of the main container is about
_NOT_PULLED = "NotPulled"  # the practice cluster's event: it has no images
# What entry.sh leaves: when the node had its files and had met the others, and its setup.
_TIMES = re.compile(r"\s*(?:started (\d{10}))?\s*(?:setup (\d{10}) (\d{10}))?\s*")
_MULTIPLE = ("Evicted", "Preempted")  # conditions of Workloads that were queued more than once


class Phase(StrEnum):
    """A phase of a node. STARTING is the rest of the time on a cluster node before the others.

    SETUP is what a completed node leaves, or else its log tells. RUN is the rest of the time of the
    container.
    """

    QUEUED = "queued"
    SCHEDULING = "scheduling"
    STARTING = "starting"
    IMAGE = "image"
    FILES = "files"
    MEETING = "meeting"
    SETUP = "setup"
    RUN = "run"
    UNKNOWN = "unknown"


_OF_PODS = (Phase.SCHEDULING, Phase.IMAGE, Phase.FILES, Phase.MEETING, Phase.RUN)


class Span(Struct, frozen=True):
    """The time of a phase of a node, in whole seconds."""

    phase: Annotated[
        str,
        Note(
            "`queued`, `scheduling`, `starting`, `image` (pulled), `files`, `meeting`"
            " (until all nodes have connected), `setup` (a part of `run` if it is not known),"
            " `run`, or `unknown` for a time that is one of those in the node's `unknown`"
        ),
    ]
    start: Annotated[datetime, Note("RFC 3339, in UTC")]
    end: Annotated[datetime | None, Note("null if it goes on")]

    def seconds(self, now: datetime) -> int:
        """Return how long it took, or has taken until now."""
        return max(int(((self.end or now) - self.start).total_seconds()), 0)


class NodeTimeline(Struct, frozen=True):
    """The phases of a node's latest attempt, in order."""

    index: Annotated[int, Note("rank")]
    name: str
    state: str
    restarts: int
    pod: Annotated[str, Note("may be empty")]
    phases: tuple[Span, ...]
    unknown: Annotated[tuple[str, ...], Note("phases whose times nothing tells: events expire")]

    def seconds(self, phase: Phase, now: datetime) -> int | None:
        """Return how long a phase took; None if it is not known, or there was none."""
        times = [span.seconds(now) for span in self.phases if span.phase == phase]
        return sum(times) if times else None


class TaskTimeline(Struct, frozen=True):
    """The nodes of a task."""

    task_id: str
    name: str
    status: str
    nodes: tuple[NodeTimeline, ...]

    @property
    def summary(self) -> str:
        """How long a completed task took, and the phases of the node that ended last."""
        ends = [(node.phases[-1].end, node) for node in self.nodes if node.phases]
        known = [(end, node) for end, node in ends if end]
        if not known:
            return "completed"
        end, last = max(known, key=lambda item: item[0])
        seconds = {phase: last.seconds(phase, end) or 0 for phase in Phase}
        seconds[Phase.QUEUED] += seconds.pop(Phase.SCHEDULING)
        parts = [f"{phase} {_exact(number)}" for phase, number in seconds.items() if number]
        begin = min(node.phases[0].start for _, node in known)
        return f"completed in {_exact(int((end - begin).total_seconds()))}: {', '.join(parts)}"


class Timeline(Document, frozen=True, kw_only=True):
    """When nodes were queued and run: `status --timeline`, `GET /tasks/ID/timeline`."""

    now: Annotated[datetime, Note("the API server's time")]
    tasks: Annotated[list[TaskTimeline], Note("one, or those of a pipeline or group")]


def _exact(seconds: int) -> str:
    """Format a duration with more digits than kubectl's: `55s`, `12m40s`, `1h05m`."""
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
    return f"{minutes // 60}h{minutes % 60:02}m"


def task_timeline(
    snapshot: TaskSnapshot, task: TaskStatus, setups: Mapping[ContainerKey, SetupTimes]
) -> TaskTimeline:
    """Return the timeline of a task; `setups` are what the logs of its nodes tell."""
    pods = {pod.metadata.name: pod for pod in snapshot.of(kinds.POD)}
    items = {item.metadata.name: item for item in snapshot.workloads}
    signs = _signs(snapshot, setups)
    nodes = []
    for node in task.nodes:
        spans, unknown = _phases(signs, node, items.get(node.job), pods.get(node.pod))
        fields = node.index, node.name, node.state, node.restarts, node.pod
        nodes.append(NodeTimeline(*fields, _in_order(spans, node), unknown))
    return TaskTimeline(task.id, task.name, task.state, tuple(nodes))


class _Signs(Struct, frozen=True):
    """Events by the uid of their object, conditions of Kueue's by their owner's, setups."""

    events: Mapping[str, list[Event]]
    queueing: Mapping[str, list[Condition]]
    setups: Mapping[ContainerKey, SetupTimes]


def _signs(snapshot: TaskSnapshot, setups: Mapping[ContainerKey, SetupTimes]) -> _Signs:
    events: dict[str, list[Event]] = defaultdict(list)
    for event in snapshot.of(kinds.EVENT):
        events[event.involved_object.uid].append(event)
    queueing: dict[str, list[Condition]] = defaultdict(list)
    for workload in snapshot.of(kinds.QUEUED_WORKLOAD):
        for owner in workload.metadata.owner_references:
            queueing[owner.uid] += workload.status.conditions
    return _Signs(events, queueing, setups)


def _phases(
    signs: _Signs, node: NodeStatus, item: TaskObject | None, pod: Pod | None
) -> tuple[list[Span], tuple[Phase, ...]]:
    """Return the phases of a node, and those that are not known."""
    before = list(_before_scheduling(signs, node, item, pod))
    scheduled = _condition_time(pod, "PodScheduled") if pod else None

    if pod is None and node.state.ended and before:  # its pod is deleted
        return [*before[:-1], Span(Phase.UNKNOWN, before[-1].start, None)], _OF_PODS
    if pod is None or scheduled is None:
        return before, ()
    if before:
        before.append(Span(Phase.SCHEDULING, before.pop().start, scheduled))

    state = container(pod).state
    times = state.terminated or Terminated()
    if state.running:
        times = Terminated(started_at=state.running.started_at)
    started = _time(times.started_at)
    starting, unknown = _starting(signs, pod, scheduled, started)
    if started is None:
        return [*before, *starting], unknown

    finished = _time(times.finished_at) or _ended_at(node)
    setup = signs.setups.get(container_key(pod.metadata.namespace, node), SetupTimes())
    running = list(_in_container(node, pod, started, finished, setup))
    if any(span.phase is Phase.UNKNOWN for span in running):
        unknown += (Phase.RUN,)
    return [*before, *starting, *running], unknown


def _before_scheduling(
    signs: _Signs, node: NodeStatus, item: TaskObject | None, pod: Pod | None
) -> Iterator[Span]:
    """Yield the time in the queue, if any, and the one that the scheduler takes.

    Of a later attempt, the time from its pod on.
    """
    if item is None:
        return

    start = _time(item.metadata.creation_timestamp)
    if pod and node.restarts:
        start = _time(pod.metadata.creation_timestamp)
    if start is None:
        return

    if not pod and node.reason in ("Suspended", QUEUED):
        yield Span(Phase.QUEUED, start, None)
        return

    queueing = signs.queueing.get(item.metadata.uid, [])
    admitted = None if node.restarts else _admitted_at([*item.status.conditions, *queueing])
    if admitted and admitted > start:
        if not any(condition.type in _MULTIPLE for condition in queueing):
            yield Span(Phase.QUEUED, start, admitted)
        start = admitted
    yield Span(Phase.SCHEDULING, start, None)


def _admitted_at(conditions: Iterable[Condition]) -> datetime | None:
    """Return when a queue admitted an object, or it was resumed; None if neither happened."""
    for kind, status in (("Suspended", "False"), ("Admitted", "True"), ("QuotaReserved", "True")):
        for condition in conditions:
            if (condition.type, condition.status) == (kind, status):
                return _time(condition.last_transition_time)
    return None


def _starting(
    signs: _Signs, pod: Pod, scheduled: datetime, started: datetime | None
) -> tuple[list[Span], tuple[Phase, ...]]:
    """Return the phases on the cluster node before the container starts, and unknown ones."""
    files = _files(pod)
    parts = [files] if files else []

    image, is_known = _image(signs, pod)
    if image and image.start >= scheduled and (started is None or image.start <= started):
        parts.append(image)
    parts.sort(key=lambda part: part.start)

    spans = []
    at = scheduled
    for part in parts:
        spans.append(Span(Phase.STARTING, at, part.start))
        end = part.end or started  # its container runs: the event is missing
        spans.append(Span(part.phase, part.start, end))
        if end is None:
            return spans, ()
        at = max(at, end)

    spans.append(Span(Phase.STARTING, at, started))
    unknown = () if is_known else (Phase.IMAGE,)
    return spans, unknown


def _files(pod: Pod) -> Span | None:
    """Return when the init containers downloaded buckets and files."""
    states = [status.state for status in init_statuses(pod)]
    active = [state.terminated or state.running for state in states]
    ends = [state.terminated for state in states]
    starts = [time for it in active if it and (time := _time(it.started_at))]
    finished = [time for it in ends if it and (time := _time(it.finished_at))]
    if not starts:
        return None
    end = max(finished) if len(finished) == len(states) else None
    return Span(Phase.FILES, min(starts), end)


def _image(signs: _Signs, pod: Pod) -> tuple[Span | None, bool]:
    """Return when the image was pulled, if it was, and whether that is known: events expire."""
    times: dict[str, datetime] = {}
    for event in signs.events.get(pod.metadata.uid, ()):
        path = event.involved_object.field_path
        if path == _MAIN or event.reason == _NOT_PULLED:
            texts = (event.first_timestamp, event.event_time)
            if time := next(filter(None, map(_time, texts)), None):
                times.setdefault(event.reason, time)
    pulling = times.get("Pulling")
    pulled = times.get("Pulled")
    if pulling is None:
        return None, bool(pulled) or _NOT_PULLED in times
    return Span(Phase.IMAGE, pulling, pulled), True


def _in_container(
    node: NodeStatus, pod: Pod, started: datetime, finished: datetime | None, logged: SetupTimes
) -> Iterator[Span]:
    """Yield the phases of the container, which is ready when its startup probe has succeeded.

    The kubelet may report that some seconds after the setup began.
    """
    annotations = pod.metadata.annotations
    left_at, left = _left_times(pod)
    ready = left_at or _condition_time(pod, "Ready")
    setup = left if left.began else logged
    if setup.began and not left_at:
        ready = min(ready or setup.began, setup.began)

    start = Phase.FILES
    if names.AWAITS_UPLOAD not in annotations:
        start = Phase.MEETING
        ready = ready if names.AWAITS_NODES in annotations else started
        if not node.awaits_nodes:  # of an ended node without its times, it is a part of the run
            ready = ready or started

    if ready:
        yield Span(start, started, ready)
        yield from _setup(setup, ready, finished)
    elif finished is None and (node.awaits_files or node.awaits_nodes):
        yield Span(start, started, None)
    else:
        yield Span(Phase.UNKNOWN, started, finished)


def _left_times(pod: Pod) -> tuple[datetime | None, SetupTimes]:
    """Return when a completed node had started, and the times of its setup."""
    end = container(pod).state.terminated
    match = _TIMES.fullmatch(end.message) if end else None
    texts = match.groups() if match else (None, None, None)
    times = [datetime.fromtimestamp(int(text), UTC) if text else None for text in texts]
    return times[0], SetupTimes(*times[1:])


def _setup(setup: SetupTimes, ready: datetime, finished: datetime | None) -> Iterator[Span]:
    """Yield the time until setup begins, that of setup, if they are known, and the rest."""
    times = [ready, setup.began, setup.ended, finished]
    known = [time for time in times if time]
    if setup.began is None or known != sorted(known):
        yield Span(Phase.RUN, ready, finished)
        return

    yield Span(Phase.STARTING, ready, setup.began)
    yield Span(Phase.SETUP, setup.began, setup.ended or finished)
    if setup.ended:
        yield Span(Phase.RUN, setup.ended, finished)


def _in_order(spans: list[Span], node: NodeStatus) -> tuple[Span, ...]:
    """Return the spans without empty ones, and none after the end of a finished node.

    Clocks of the cluster may differ by some seconds: none begins before the one before it ended.
    """
    result: list[Span] = []
    ended = _ended_at(node) if node.state.ended else None
    for span in spans:
        end_before = result[-1].end if result else None
        start = max(span.start, end_before or span.start)
        end = span.end or ended
        if node.state.ended and end is None:
            continue  # it is not known when it ended
        if end is not None and end <= start and (span.end or node.state.ended):
            continue
        result.append(Span(span.phase, start, end))
    return tuple(result)


def _ended_at(node: NodeStatus) -> datetime | None:
    return _time(node.ended_at) if node.state is not State.PENDING else None


def _condition_time(pod: Pod, kind: str) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == kind and condition.status == "True":
            return _time(condition.last_transition_time)
    return None


def _time(text: str | None) -> datetime | None:
    """Return a time in whole seconds, as most of the cluster's are; None if it is none."""
    time = age.parse(text)
    return time.astimezone(UTC).replace(microsecond=0) if time else None
