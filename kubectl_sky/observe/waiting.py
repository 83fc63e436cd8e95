"""Report what a task waits for: the stage of its start, and nodes that failed or restart."""

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from kubectl_sky.observe import reasons
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.reasons import RETRYING
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.workloads.workload import STOPPED

_MAX_LISTED = 4


class WaitingStage(Struct, frozen=True):
    """What a task waits for; `normal` is whether every start has this stage."""

    text: str
    normal: bool


def is_blocked(node: NodeStatus) -> bool:
    """Return whether a node has a reason for not starting that a normal start does not have."""
    known = reasons.find(node.reason)
    is_usual = known.is_normal or known.waits or node.reason == RETRYING
    return node.state is State.PENDING and not is_usual and not node.awaits_files


def stage(task: TaskStatus, cause: str = "") -> WaitingStage | None:
    """Return the stage of the node that is furthest behind; None if no node waits.

    `cause` explains why nodes are blocked, if it is known. What keeps a task that is being deleted
    comes first; grace periods pass without a word.
    """
    if task.deletion.since:
        shown = WaitingStage(f"{task.name}: {task.deletion}", normal=False)
        return None if task.deletion.passes else shown

    waiting = [
        node
        for node in task.nodes
        if node.state is State.PENDING and node.reason != RETRYING and not node.awaits_files
    ]
    if task.workload.independent_nodes:  # the others of an array wait for their turn
        waiting = [node for node in waiting if is_blocked(node)]
    if not waiting:
        return None

    last = min(
        waiting,
        key=lambda it: (not is_blocked(it), bool(it.pod), bool(it.host), it.awaits_nodes),
    )
    peers = [node for node in waiting if _text(node) == _text(last)]
    text = f"pending: {cause}" if cause and is_blocked(last) else _text(last)
    hosts = list(dict.fromkeys(node.host for node in peers if node.host))
    if hosts and not is_blocked(last):
        text = f"{text} on {summarize(hosts)}"
    if len(peers) < len(task.nodes) and not task.workload.independent_nodes:
        text = f"{summarize([node.name for node in peers])}: {text}"

    met = task.num_nodes - task.count(State.PENDING)
    started = met + sum(node.awaits_nodes for node in task.nodes if node is not last)
    if started and not task.workload.independent_nodes:
        text = f"{started} of {task.num_nodes} nodes have started; {text}"

    return WaitingStage(f"{task.name}: {text}", normal=reasons.find(last.reason).is_normal)


def progress(task: TaskStatus) -> str:
    """Return where a started task runs, and how many of its nodes have completed."""
    running = [node for node in task.nodes if node.state is State.RUNNING]
    hosts = list(dict.fromkeys(node.host for node in running if node.host))
    where = f" on {summarize(hosts)}" if hosts else ""
    completed = task.count(State.COMPLETED)
    counted = f"{completed} of {task.num_nodes} nodes completed; " if completed else ""
    return f"{task.name}: {counted}{task.state}{where}"


def title(task: TaskStatus) -> str:
    """Return the state of a task for a title: `train: 3 of 4 running`."""
    counted = f"{task.count(task.state)} of {task.num_nodes} " if task.num_nodes > 1 else ""
    return f"{task.name}: {counted}{task.state}"


def _text(node: NodeStatus) -> str:
    message = f": {node.message}" if node.message else ""
    if is_blocked(node):
        return f"pending: {node.reason}{message}"
    if waits := reasons.find(node.reason).waits:
        return waits + message
    if not node.pod:
        return "waiting for a pod"
    return (node.message or "starting") if node.host else "waiting for a cluster node"


def notes(task: TaskStatus, stopping: bool = False) -> list[str]:
    """Return a line for each reason why nodes failed or restart.

    `stopping` means that a client stops the remaining nodes after a failure.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for node in task.nodes:
        text = _failure_line(task, node, stopping)
        if node.reason == RETRYING:
            text = "%s failed and starts again" + (f": {node.message}" if node.message else "")
        if text:
            groups[text].append(node.name)
    if task.workload.independent_nodes:  # independent nodes: one line per node, without duplicates
        lines = [
            text.replace("%s", name, 1) for text, members in groups.items() for name in members
        ]
        return list(dict.fromkeys(lines))
    return [text.replace("%s", summarize(members), 1) for text, members in groups.items()]


def _failure_line(task: TaskStatus, node: NodeStatus, stopping: bool) -> str:
    stopped = node.reason == STOPPED or node.stopped_for not in ("", node.name)
    if node.state is not State.FAILED or task.over or stopped:
        return ""  # the failure that stopped it is reported instead
    if task.workload.independent_nodes:
        return f"%s failed: {node.end}"
    others = "are being stopped" if stopping or task.workload.fail_fast else "go on"
    return f"%s failed: {node.end}; the other nodes {others}"


def summarize(names: Sequence[str]) -> str:
    """Return `node-0, node-1 and 8 more`."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
