"""Read what the nodes of running tasks do: their last lines, CPU and GPU use."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event
from time import sleep

from msgspec.structs import replace

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError
from kubectl_sky.observe import stacks
from kubectl_sky.observe.flight_recorder import compare
from kubectl_sky.observe.hangs import list_silent
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.ranks import LINES, RankActivity, find_behind, read_rhythm
from kubectl_sky.observe.stacks import Dump
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.resources import amount_of
from kubectl_sky.words import kinds, names

_BETWEEN_LOOKS = 3.0  # seconds between two looks at a program
_DUMPING = timedelta(seconds=5)  # after which PyTorch may print a last line
_SMI = (
    "PATH=$PATH:/usr/local/nvidia/bin;"
    " exec nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits"
)
_SMI_SECONDS = 15.0


def read(session: Session, task: TaskStatus, *, quiet: bool = False) -> tuple[RankActivity, ...]:
    """Return what each node of a running task of several nodes does; empty for other tasks.

    One log request for each node, one for all CPUs, and nvidia-smi if the nodes request GPUs. If
    nodes are silent for unusually long, it also looks twice where the programs of all are; `quiet`
    sends them no signal.
    """
    nodes = list_running(task)
    if not nodes:
        return ()
    from kubectl_sky.tasks.exec import in_nodes, read_script  # noqa: PLC0415 -- not for a list

    cpus = read_cpus(session, task.namespace, {names.TASK_ID: task.id})

    def read_node(node: NodeStatus, stop: Event) -> RankActivity:
        activity = replace(read_log(session, task, node), cpus=cpus.get(node.pod))
        if not task.requested.resources.gpus:
            return activity
        with suppress(SkyError):
            text = read_script(session, (task.namespace, node.pod), [_SMI], _SMI_SECONDS, stop)
            values = [int(value) for value in re.findall(r"^\d{1,3}$", text, re.M)]
            percent = sum(values) / len(values) if values else None
            activity = replace(activity, gpu_percent=percent)
        return activity

    answers = in_nodes(nodes, read_node).values()
    activities = tuple(answer for answer in answers if isinstance(answer, RankActivity))
    is_lost = any(node.lost_since for node in nodes)  # the others wait for it
    if is_lost or not list_silent(activities, session.now()):
        return activities
    return _find_positions(session, task, nodes, activities, quiet=quiet)


def _find_positions(
    session: Session,
    task: TaskStatus,
    nodes: Sequence[NodeStatus],
    activities: Sequence[RankActivity],
    *,
    quiet: bool,
) -> tuple[RankActivity, ...]:
    """Return the nodes with where their programs are, and whether they go on, by two looks."""
    from kubectl_sky.tasks.stacks import read_dumps  # noqa: PLC0415 -- only of silent nodes

    behind = find_behind({it.rank: it.last_line for it in activities})
    activities = tuple(replace(it, is_behind=it.rank in behind) for it in activities)
    first = read_dumps(session, task.namespace, nodes, quiet=quiet, with_recorder=False)
    if not any(isinstance(it, Dump) for it in first.values()):
        return activities  # such as without the right
    sleep(_BETWEEN_LOOKS)
    second = read_dumps(session, task.namespace, nodes, quiet=quiet)
    now = session.now()
    known = {rank: it for rank, it in second.items() if isinstance(it, Dump)}
    positions = stacks.find_positions(known)
    recorded = _read_recordings(known, list_silent(activities, now), now)

    def look(it: RankActivity) -> RankActivity:
        before = first.get(it.rank)
        after = known.get(it.rank)
        if not isinstance(before, Dump) or after is None:
            return it
        position, waits = positions[it.rank]
        return replace(
            it,
            position=position,
            waits=waits,
            moves=stacks.has_moved(before, after),
            is_busy=stacks.is_busy(before, after),
            flight_recorder=recorded.get(it.rank, ""),
        )

    return tuple(map(look, activities))


def _read_recordings(
    dumps: Mapping[int, Dump], silent: Sequence[RankActivity], now: datetime
) -> dict[int, str]:
    """Return what flight recorders tell about a silence, by node: not by dumps before it."""
    silences = [silence for it in silent if (silence := it.silence(now)) is not None]
    oldest = min(silences, default=timedelta()) + _DUMPING
    recordings = {
        rank: [it for it in dump.recordings if timedelta(seconds=it.age) <= oldest]
        for rank, dump in dumps.items()
    }
    comparison = compare(recordings)
    return comparison.by_node if comparison else {}


def list_running(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes of a task of several nodes, if all of them run.

    Empty for an array, and for a task that waits for its user.
    """
    nodes = [it for it in task.nodes if it.state is State.RUNNING and it.pod and not it.ended_at]
    is_alone = task.workload.independent_nodes or task.interactive
    is_whole = len(nodes) == task.num_nodes > 1 and not is_alone
    return nodes if is_whole else []


def read_log(session: Session, task: TaskStatus, node: NodeStatus) -> RankActivity:
    if node.lost_since:  # the API server would wait 10 seconds for its cluster node
        return RankActivity(node.index, node.restarts)
    try:
        lines = CoreManager(session).last_lines(
            task.namespace, node.pod, names.CONTAINER, LINES, timestamps="true"
        )
    except ClusterError:  # deleted meanwhile, or its cluster node does not answer
        lines = []
    return read_rhythm(node.index, node.restarts, [it.decode(errors="replace") for it in lines])


def read_cpus(session: Session, namespace: str | None, labels: dict[str, str]) -> dict[str, float]:
    """Return the CPUs that pods use, by name; empty if the cluster does not say."""
    selector = names.selector(labels)
    cpus = dict[str, float]()
    try:
        metrics = objects.list_all(session, kinds.POD_METRICS, namespace, label_selector=selector)
    except ClusterError:
        return {}
    for item in metrics:
        usages = [entry.usage or {} for entry in item.containers or ()]
        cpus[item.metadata.name] = float(sum(amount_of(it.get("cpu")) for it in usages))
    return cpus
