"""Read what the nodes of running tasks do: their last lines, CPU and GPU use."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Event

from msgspec.structs import replace

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError
from kubectl_sky.observe import ranks
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.ranks import RankActivity
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.resources import amount_of
from kubectl_sky.words import age, kinds, names

_MAX_LISTED = 16  # tasks of a list whose silence is looked for: the newest
_SMI = (
    "PATH=$PATH:/usr/local/nvidia/bin;"
    " exec nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits"
)
_SMI_SECONDS = 15.0


def read(session: Session, task: TaskStatus) -> tuple[RankActivity, ...]:
    """Return what each node of a running task of several nodes does; empty for other tasks.

    One log request for each node, one for all CPUs, and nvidia-smi if the nodes request GPUs.
    """
    nodes = _running(task)
    if not nodes:
        return ()
    from kubectl_sky.tasks.exec import in_nodes, read_script  # noqa: PLC0415 -- not for a list

    cpus = _cpus(session, task.namespace, {names.TASK_ID: task.id})

    def read_node(node: NodeStatus, stop: Event) -> RankActivity:
        activity = replace(_last_output(session, task, node), cpus=cpus.get(node.pod))
        if not task.requested.resources.gpus:
            return activity
        with suppress(SkyError):
            text = read_script(session, (task.namespace, node.pod), _SMI, _SMI_SECONDS, stop)
            values = [int(value) for value in re.findall(r"^\d{1,3}$", text, re.M)]
            percent = sum(values) / len(values) if values else None
            activity = replace(activity, gpu_percent=percent)
        return activity

    answers = in_nodes(nodes, read_node).values()
    return tuple(answer for answer in answers if isinstance(answer, RankActivity))


def explain_silent(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    read_limit: Callable[[], timedelta],
) -> list[TaskStatus]:
    """Return listed tasks; those of several running nodes with a silence that exceeds a limit.

    The limit is read if there is such a task; 0 means that none is looked at. Reads the last lines
    of one log for each, and not for more than 16 tasks: of the node that uses the least CPU by one
    request for all, and of the first node without a metrics API.
    """
    now = session.now()
    running = {id(task): nodes for task in tasks if (nodes := _running(task))}
    limit = read_limit() if running else timedelta(0)

    def is_due(task: TaskStatus) -> bool:
        starts = [age.parse(node.started_at) for node in running.get(id(task), ())]
        return bool(starts) and all(start and now - start >= limit for start in starts)

    due = list(filter(is_due, tasks))[:_MAX_LISTED] if limit else []
    cpus = _cpus(session, namespace, {names.TASK: "true"}) if due else {}

    def explain(task: TaskStatus) -> str:
        idlest = min(running[id(task)], key=lambda node: cpus.get(node.pod, 0.0))
        last = age.parse(_last_output(session, task, idlest).last_output)
        if last is None or now - last < limit:
            return ""
        since = age.duration(now - last)
        return f"rank {idlest.index} has printed nothing for {since}: kubectl sky doctor {task.id}"

    texts = dict(zip(map(id, due), parallel.map_parallel(explain, due), strict=True))
    return [replace(task, silence=texts.get(id(task), "")) for task in tasks]


def _running(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes of a task of several nodes, if all of them run; empty for an array."""
    nodes = [it for it in task.nodes if it.state is State.RUNNING and it.pod and not it.ended_at]
    is_whole = len(nodes) == task.num_nodes > 1 and not task.workload.independent_nodes
    return nodes if is_whole else []


def _last_output(session: Session, task: TaskStatus, node: NodeStatus) -> RankActivity:
    try:
        lines = CoreManager(session).last_lines(
            task.namespace, node.pod, names.CONTAINER, ranks.LINES, timestamps="true"
        )
    except ClusterError:  # deleted meanwhile, or its cluster node does not answer
        lines = []
    last, interval = ranks.last_output([line.decode(errors="replace") for line in lines])
    return RankActivity(node.index, node.restarts, last, interval)


def _cpus(session: Session, namespace: str | None, labels: dict[str, str]) -> dict[str, float]:
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
