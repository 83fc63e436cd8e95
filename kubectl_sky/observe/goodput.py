"""Compute what the time of a task went into, from its pods and the steps in its logs.

All nodes count, each from the submission to its end. A step takes the time since the line before
it. Of a pause that is longer than three steps, one step counts as such, and the rest as a stall, or
as other work if the program printed something else meanwhile.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe.nodes import NodeStatus, container
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.steps import Steps, is_long, usual_pause
from kubectl_sky.observe.uses import HOLDS_NO_GPU, MEANINGS, Use, UsesRecord
from kubectl_sky.words import age
from kubectl_sky.words.documents import Document, Note, Part, always
from kubectl_sky.words.pod_objects import ContainerState, Pod, Terminated
from kubectl_sky.workloads.workload import condition

_LATEST = 20  # steps that tell how fast a node is now
_SLOW = 1.2  # times the time of a step of others, or of before
_HOUR = 3600.0


_OF_RUN = (Use.LOADING, Use.STEPS, Use.REPEATED, Use.STALLS, Use.OTHER)


class Attempt(Struct, frozen=True):
    """A container of a node, and what its log tells; times that are not known are None."""

    created: datetime
    scheduled: datetime | None
    started: datetime | None
    finished: datetime | None
    run_began: datetime | None = None
    steps: Steps | None = None  # None if its log is gone


class TimeUse(Part, frozen=True):
    """The time that went into one use."""

    use: Annotated[str, Note(", ".join(f"`{use}` ({text})" for use, text in MEANINGS.items()))]
    seconds: Annotated[float, Note("of all `nodes` together")]
    percent: float
    gpu_hours: Annotated[float | None, Note("of the GPUs that all nodes held")] = None


class NodePace(Part, frozen=True):
    """How fast a node makes its steps."""

    index: Annotated[int, Note("rank")]
    name: str
    steps: Annotated[int, Note("step lines in its logs")] = always(0)
    step_seconds: Annotated[float | None, Note("usual time between two step lines")] = None
    latest_seconds: Annotated[float | None, Note("the same of the last 20")] = None
    slow_since: Annotated[str, Note("since when it is slower than the others")] = ""


class TaskGoodput(Part, frozen=True):
    """What the time of a task went into."""

    task_id: str
    name: str
    status: str
    seconds: Annotated[float, Note("from the submission to the end, or to now")]
    shares: Annotated[tuple[TimeUse, ...], Note("of the time of all nodes; without empty ones")]
    nodes: tuple[NodePace, ...]
    slow_since: Annotated[str, Note("since when all nodes are slower than before")] = ""
    former: Annotated[str, Note("id of the last task of the same name before it")] = ""
    former_step_seconds: Annotated[float | None, Note("usual time of a step there")] = None
    notes: Annotated[tuple[str, ...], Note("what could not be told")] = ()

    @property
    def percent(self) -> float:
        """How much of the time went into new steps."""
        return sum(it.percent for it in self.shares if it.use == Use.STEPS)

    @property
    def step_seconds(self) -> float | None:
        """The usual time of a step of all nodes."""
        known = [it.step_seconds for it in self.nodes if it.step_seconds is not None]
        return median(known) if known else None


class Goodput(Document, frozen=True, kw_only=True):
    """What the time of tasks went into: `status --goodput`."""

    now: Annotated[datetime, Note("the API server's time")]
    tasks: Annotated[list[TaskGoodput], Note("one, or those of a pipeline or group")]


def read_attempts(pods: Iterable[Pod]) -> list[tuple[str, bool, Attempt]]:
    """Return the attempts of a node: pod, whether its log is the previous one, and the times.

    Of a pod whose container was started more than twice, the earlier ones are not known.
    """
    attempts = []
    for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp):
        created = age.parse(pod.metadata.creation_timestamp)
        if created is None:
            continue
        name = pod.metadata.name
        placed = condition(pod, "PodScheduled")
        scheduled = age.parse(placed.last_transition_time) if placed else None
        status = container(pod)
        started, finished = _read_times(status.state)
        began, ended = _read_times(status.last_state)
        if began and ended:
            attempts.append((name, True, Attempt(created, scheduled, began, ended)))
            created = scheduled = started or ended
        attempts.append((name, False, Attempt(created, scheduled, started, finished)))
    return attempts


def _read_times(state: ContainerState) -> tuple[datetime | None, datetime | None]:
    """Return when a container started and ended, as far as it has."""
    end = state.terminated or Terminated()
    started = state.running.started_at if state.running else end.started_at
    return age.parse(started), age.parse(end.finished_at)


Seconds = dict[Use, float]


class NodeTimes(Struct, frozen=True):
    """A node, its attempts in order, and when it ended, or now."""

    node: NodeStatus
    attempts: Sequence[Attempt]
    end: datetime

    @property
    def has_steps(self) -> bool:
        return any(attempt.steps for attempt in self.attempts)


def task_goodput(task: TaskStatus, nodes: Sequence[NodeTimes], now: datetime) -> TaskGoodput:
    """Return what the time of a task went into; `nodes` are all of its nodes."""
    submitted = age.parse(task.created_at) or now
    uses = [_account(submitted, it) for it in nodes]
    leader = next((index for index, it in enumerate(nodes) if it.has_steps), None)
    notes = list(_find_notes(nodes))
    if leader is not None and not task.workload.independent_nodes:
        for index, it in enumerate(nodes):
            if not it.has_steps:
                uses[index] = _divide_like(uses[index], uses[leader])

    paces = _find_paces(nodes)
    end = max((it.end for it in nodes), default=now)
    return TaskGoodput(
        task_id=task.id,
        name=task.name,
        status=task.state,
        seconds=round(max((end - submitted).total_seconds(), 0.0), 1),
        shares=tuple(_find_shares(task, uses)),
        nodes=paces,
        slow_since=_find_slow_since_of_all(nodes, paces),
        notes=tuple(notes),
    )


def _find_shares(task: TaskStatus, uses: Sequence[Mapping[Use, float]]) -> Iterator[TimeUse]:
    """Yield what the time of nodes went into; the GPU-hours are those of all nodes of the task.

    If these are the uses of its first node, the others held their GPUs as long.
    """
    total = sum(sum(it.values()) for it in uses)
    is_of_first = len(uses) == 1 and not task.workload.independent_nodes
    nodes = task.num_nodes if is_of_first else 1
    for use in Use:
        seconds = sum(it.get(use, 0.0) for it in uses)
        if seconds < 0.5:
            continue
        gpus = 0 if use in HOLDS_NO_GPU else task.requested.resources.gpus
        hours = round(nodes * gpus * seconds / _HOUR, 2) if gpus else None
        yield TimeUse(use, round(seconds, 1), round(100 * seconds / total, 1), hours)


def record_uses(task: TaskStatus, first: NodeTimes) -> UsesRecord | None:
    """Return what outlives the log of the first node of a task; None if it has no steps."""
    submitted = age.parse(task.created_at)
    if not first.has_steps or submitted is None:
        return None
    uses = account(submitted, first.attempts, first.end)
    (pace,) = _find_paces([first])
    known = {use: tenths for use, seconds in uses.items() if (tenths := round(seconds, 1))}
    return UsesRecord(known, pace.steps, pace.step_seconds) if known else None


def recorded_goodput(task: TaskStatus, record: UsesRecord) -> TaskGoodput:
    """Return what the time of a task went into whose logs are gone."""
    first = task.nodes[0]
    return TaskGoodput(
        task_id=task.id,
        name=task.name,
        status=task.state,
        seconds=round(sum(record.uses.values()), 1),
        shares=tuple(_find_shares(task, [record.uses])),
        nodes=(NodePace(first.index, first.name, record.steps, record.step_seconds),),
        notes=(f"its logs are gone: recorded of {first.name} when the task ended",),
    )


def _account(submitted: datetime, it: NodeTimes) -> Seconds:
    """Return what the time of a node went into; of one whose pods are deleted, nothing is known."""
    if it.attempts or not it.node.state.ended:
        return account(submitted, it.attempts, it.end)
    result = dict.fromkeys(Use, 0.0)
    _add(result, Use.UNKNOWN, submitted, it.end)
    return result


def account(submitted: datetime, attempts: Sequence[Attempt], end: datetime) -> Seconds:
    """Return what the time of a node went into, from the submission to an end."""
    result = dict.fromkeys(Use, 0.0)
    if not attempts:
        _add(result, Use.QUEUE, submitted, end)
        return result

    at = submitted
    best = -1.0
    counts = all(not it.steps.has_unnamed_epochs for it in attempts if it.steps)
    for number, attempt in enumerate(attempts):
        is_last = number == len(attempts) - 1
        ends = attempt.finished or (end if is_last else attempts[number + 1].created)

        if number:
            at = _add(result, Use.DOWN, at, attempt.created)
        at = _add(result, Use.QUEUE, at, attempt.scheduled or ends)
        began = attempt.run_began or attempt.started
        at = _add(result, Use.START, at, began or ends)

        steps = attempt.steps
        if began is None or ends <= at:
            continue
        if steps is None:
            at = _add(result, Use.UNKNOWN, at, ends)
            continue
        span = (at.timestamp(), ends.timestamp())
        is_over = attempt.finished is not None
        known_best = best if counts else None
        _add_run(result, steps, span, known_best, is_over, is_last)
        best = max(best, max(steps.positions, default=-1.0))
        at = ends
    _add(result, Use.DOWN, at, end)
    return result


def _add(result: Seconds, use: Use, start: datetime, end: datetime) -> datetime:
    """Add the time between two moments; return the later one."""
    result[use] += max((end - start).total_seconds(), 0.0)
    return max(start, end)


def _add_run(
    result: Seconds,
    steps: Steps,
    span: tuple[float, float],
    best: float | None,
    is_over: bool,
    is_last: bool,
) -> None:
    """Add the time of a program, from its start to its end or to now.

    Steps up to the best of earlier attempts are repeated; with None, that cannot be told.
    """
    start, end = span
    if not steps:
        result[Use.OTHER] += end - start
        return

    pauses = steps.pauses
    usual = usual_pause(pauses)
    usual_lines = usual_pause([after - before for before, after in pairwise(steps.lines)])
    reached = -1.0

    def add_step(position: float, seconds: float) -> None:
        nonlocal reached
        is_repeated = best is not None and (position <= best or position < reached)
        result[Use.REPEATED if is_repeated else Use.STEPS] += seconds
        reached = max(reached, position)

    before = max(steps.times[0] - start, 0.0)
    first = min(usual, before)
    result[Use.LOADING] += before - first
    add_step(steps.positions[0], first)

    for index, pause in enumerate(pauses):
        step = usual if is_long(pauses, index, usual) else pause
        has_printed = steps.lines[index + 1] - steps.lines[index] > usual_lines
        result[Use.OTHER if has_printed else Use.STALLS] += pause - step
        add_step(steps.positions[index + 1], step)

    rest = max(end - steps.times[-1], 0.0)
    if is_over and is_last:
        result[Use.OTHER] += rest
        return
    step = usual if is_long([*pauses, rest], len(pauses), usual) else rest
    result[Use.STALLS] += rest - step
    result[Use.REPEATED if is_over else Use.STEPS] += step


def _divide_like(own: Seconds, leader: Seconds) -> Seconds:
    """Return the time of a node that prints no steps: its program does what the first one does."""
    run = sum(leader[use] for use in _OF_RUN)
    if not run:
        return own
    shares = {use: own[Use.OTHER] * leader[use] / run for use in _OF_RUN}
    return own | shares


def _find_notes(nodes: Sequence[NodeTimes]) -> Iterator[str]:
    attempts = [attempt for it in nodes for attempt in it.attempts]
    lost = sum(
        it.node.restarts + 1 - len(it.attempts)
        for it in nodes
        if it.attempts or it.node.state.ended
    )
    gone = sum(bool(it.started and it.steps is None) for it in attempts)
    if lost > 0 or gone:
        yield "logs of earlier attempts are gone: their time is not divided"
    started = [it for it in attempts if it.started]
    if started and not any(it.steps for it in started):
        yield "no line of its log counts steps: set config.kubectl_sky.step_regex"
    if len(started) > len(nodes) and any(
        it.steps and it.steps.has_unnamed_epochs for it in started
    ):
        yield "its lines do not name the epoch: repeated steps cannot be told"


def _find_paces(nodes: Sequence[NodeTimes]) -> tuple[NodePace, ...]:
    """Return how fast each node is; slower than the others is what takes a fifth more time."""
    series = [_join(it.attempts) for it in nodes]
    latest = [_read_latest(seconds) for _, seconds in series]
    paces = []
    for index, (it, (times, seconds)) in enumerate(zip(nodes, series, strict=True)):
        others = [value for other, value in enumerate(latest) if other != index and value]
        limit = _SLOW * median(others) if others else 0.0
        pace = NodePace(
            index=it.node.index,
            name=it.node.name,
            steps=sum(len(attempt.steps or ()) for attempt in it.attempts),
            step_seconds=_round(usual_pause(seconds)),
            latest_seconds=_round(latest[index]),
            slow_since=_find_slow_since(times, seconds, limit),
        )
        paces.append(pace)
    return tuple(paces)


def _join(attempts: Iterable[Attempt]) -> tuple[list[float], list[float]]:
    """Return when each step of all attempts began, and how long it took."""
    times: list[float] = []
    seconds: list[float] = []
    for attempt in attempts:
        if attempt.steps:
            times += attempt.steps.times[:-1]
            seconds += attempt.steps.step_seconds
    return times, seconds


def _read_latest(seconds: Sequence[float]) -> float:
    return usual_pause(seconds[-_LATEST:])


def _round(seconds: float) -> float | None:
    return float(f"{seconds:.3g}") if seconds else None


def _find_slow_since(times: Sequence[float], seconds: Sequence[float], limit: float) -> str:
    """Return since when steps take longer than a limit; empty if the latest do not."""
    since = ""
    if not limit:
        return since
    for end in range(len(seconds), 0, -_LATEST):
        start = max(end - _LATEST, 0)
        if usual_pause(seconds[start:end]) <= limit:
            break
        since = age.timestamp(datetime.fromtimestamp(times[start], UTC))
    return since


def _find_slow_since_of_all(nodes: Sequence[NodeTimes], paces: Sequence[NodePace]) -> str:
    """Return since when all nodes are slower than before; empty if one of them is slower alone."""
    known = [index for index, pace in enumerate(paces) if pace.steps > 2 * _LATEST]
    if not known or any(pace.slow_since for pace in paces):
        return ""
    times, seconds = _join(nodes[known[0]].attempts)
    before = usual_pause(seconds[: len(seconds) // 2])
    return _find_slow_since(times, seconds, _SLOW * before)
