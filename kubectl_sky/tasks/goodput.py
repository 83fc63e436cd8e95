"""`status --goodput`: read what tells what the time of tasks went into, and record it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import Following, LogOptions, LogSource
from kubectl_sky.errors import ClusterError, SkyError
from kubectl_sky.observe.goodput import (
    Attempt,
    Goodput,
    NodeTimes,
    TaskGoodput,
    read_attempts,
    record_uses,
    recorded_goodput,
    task_goodput,
)
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.steps import StepReader
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import age, names
from kubectl_sky.words.pod_objects import Pod

_SHORTEST = timedelta(minutes=1)  # that a task has lasted of which is recorded what it did


def read(session: Session, scope: Scope, tasks: Sequence[TaskStatus]) -> Goodput:
    """Read the logs of all attempts of tasks, and that of one node of the task before each.

    Memory grows with the number of steps, not with that of lines.
    """
    now = session.now().astimezone(UTC)
    known = find.list_tasks(session, scope)

    def read_task(task: TaskStatus) -> TaskGoodput:
        goodput = _read_task(session, task, now)
        return _compare(session, known, goodput, now)

    return Goodput(now=now.replace(microsecond=0), tasks=list(map(read_task, tasks)))


def read_first_node(session: Session, tasks: Sequence[TaskStatus]) -> Goodput:
    """Read the logs of the first node of each task, for a server.

    The `step_regex` of a file is not used there: a stranger's could take for ever.
    """
    now = session.now().astimezone(UTC)
    plain = [replace(task, step_regex="") for task in tasks]
    goodputs = [_read_task(session, task, now, first_only=True) for task in plain]
    return Goodput(now=now.replace(microsecond=0), tasks=goodputs)


def _compare(
    session: Session, known: Sequence[TaskStatus], goodput: TaskGoodput, now: datetime
) -> TaskGoodput:
    """Add how long a step of the former task of the same name took."""
    of_name = [task for task in known if task.name == goodput.name]
    ids = [task.id for task in of_name]
    position = ids.index(goodput.task_id) + 1 if goodput.task_id in ids else len(ids)
    if goodput.step_seconds is None or position >= len(ids):
        return goodput
    former = of_name[position]
    seconds = _read_task(session, former, now, first_only=True).step_seconds
    if seconds is None:
        return goodput
    return replace(goodput, former=former.id, former_step_seconds=seconds)


def record_ended(
    session: Session, tasks: Iterable[TaskStatus], is_over: Callable[[], bool] = lambda: False
) -> None:
    """Keep what the time of tasks that have ended went into at their objects.

    A client that leads them does so once, as well as it can: Ctrl-C skips the rest, and so does
    `is_over`.
    """

    def record_one(task: TaskStatus) -> None:
        if is_over():
            return
        with suppress(SkyError):
            record(session, task)

    with suppress(KeyboardInterrupt):
        parallel.map_parallel(record_one, tasks)


def record(session: Session, task: TaskStatus) -> TaskStatus:
    """Keep what the time of a task that has ended went into at its object; return it with that.

    It is that of its first node, whose log is read. Nothing is kept of an array, of a log without
    steps, nor of a task of less than a minute: Kubernetes has times in seconds. An
    object that may not be changed is left as it is. Raises SkyError.
    """
    now = session.now().astimezone(UTC)
    if task.goodput or not task.uids or not _is_recorded(task, now):
        return task
    (first,) = _read_nodes(session, task, now, task.nodes[:1])
    found = record_uses(task, first)
    if found is None:
        return task
    body = {"metadata": {"annotations": {names.GOODPUT: found.text}}}
    metadata = task.identity(next(iter(task.uids)))
    with suppress(SkyError):  # the history keeps it, too
        objects.patch_by_uid(session, task.workload.kind, metadata, body)
    return replace(task, goodput=found)


def _is_recorded(task: TaskStatus, now: datetime) -> bool:
    first = task.nodes[0]
    created = age.parse(task.created_at) or now
    ended = age.parse(first.ended_at) or now
    has_lasted = ended - created >= _SHORTEST
    has_ended = task.state.ended and first.state.ended
    return has_lasted and has_ended and not task.workload.independent_nodes


def _read_task(
    session: Session, task: TaskStatus, now: datetime, *, first_only: bool = False
) -> TaskGoodput:
    chosen = task.nodes[:1] if first_only else task.nodes
    nodes = _read_nodes(session, task, now, chosen)
    if task.goodput and not any(node.has_steps for node in nodes):
        return recorded_goodput(task, task.goodput)
    return task_goodput(task, nodes, now)


def _read_nodes(
    session: Session, task: TaskStatus, now: datetime, nodes: Sequence[NodeStatus]
) -> list[NodeTimes]:
    pods = find.list_pods(session, task.namespace, names.selector({names.TASK_ID: task.id}))

    def read_node(node: NodeStatus) -> NodeTimes:
        own = [pod for pod in pods if task.workload.rank(pod) == node.index]
        end = age.parse(node.ended_at) if node.state.ended else None
        return NodeTimes(node, _read_attempts(session, task, node, own), end or now)

    return parallel.map_parallel(read_node, nodes)


def _read_attempts(
    session: Session, task: TaskStatus, node: NodeStatus, pods: Sequence[Pod]
) -> list[Attempt]:
    """Return the attempts of a node with what their logs tell."""
    attempts = []
    for pod, is_previous, attempt in read_attempts(pods):
        if attempt.started and not (node.lost_since and pod == node.pod):
            source = LogSource(task.namespace, pod, names.CONTAINER, node.index)
            options = LogOptions(timestamps=True, previous=is_previous)
            attempt = _with_steps(session, attempt, source, options, task.step_regex)
        attempts.append(attempt)
    return attempts


def _with_steps(
    session: Session, attempt: Attempt, source: LogSource, options: LogOptions, pattern: str
) -> Attempt:
    """Return an attempt with the steps in its log; unchanged if the log is gone."""
    reader = StepReader(pattern)
    try:
        with Following(session, options) as following:
            following.add([source])
            following.finish_adding()
            for block in following.blocks():
                for _, line in block.lines if block else ():
                    reader.read(line)
    except ClusterError:
        return attempt
    return replace(attempt, run_began=reader.run_began, steps=reader.steps)
