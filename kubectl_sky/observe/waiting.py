"""Report what a task waits for, once for all nodes with the same reason."""

from collections import defaultdict

from kubectl_sky.observe.nodes import RETRYING, NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.workloads.workload import STOPPED

# Reasons that the kubelet reports during a normal start.
NORMAL_REASONS = ("", "ContainerCreating", "PodInitializing")
_MAX_NODES_LISTED = 4


def notes(task: TaskStatus, patient: bool, stopping: bool = False) -> list[str]:
    """Return a line for each reason why nodes are pending or failed.

    If `patient`, a start that proceeds normally is not mentioned. `stopping` means that a client
    stops the remaining nodes after a failure.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for node in task.nodes:
        text = _failure_line(task, node, stopping) or _pending_line(task, node, patient)
        if text:
            groups[text].append(node.name)
    if task.workload.independent_nodes:  # independent nodes: one line per node, without duplicates
        lines = [
            text.replace("%s", name, 1) for text, members in groups.items() for name in members
        ]
        return list(dict.fromkeys(lines))
    return [text.replace("%s", _summarize(members), 1) for text, members in groups.items()]


def _failure_line(task: TaskStatus, node: NodeStatus, stopping: bool) -> str:
    """Return the line for a failed node and the effect on the other nodes."""
    stopped = node.reason == STOPPED or node.stopped_for not in ("", node.name)
    if node.state is not State.FAILED or task.over or stopped:
        return ""  # the failure that stopped it is reported instead
    if task.workload.independent_nodes:
        return f"%s failed: {node.end}"
    others = "are being stopped" if stopping or task.workload.fail_fast else "go on"
    return f"%s failed: {node.end}; the other nodes {others}"


def _pending_line(task: TaskStatus, node: NodeStatus, patient: bool) -> str:
    """Return the line for a node, with %s for its name; empty if there is none."""
    message = node.message and f": {node.message}"
    if node.reason == RETRYING:
        return f"%s failed and starts again{message}"
    if node.state is not State.PENDING:
        return ""
    if node.reason not in NORMAL_REASONS:
        subject = (
            "tasks" if task.workload.independent_nodes else "%s"
        )  # an array may have hundreds of them
        return f"waiting for {subject}: {node.reason}{message}"
    return "" if patient or task.workload.independent_nodes else "waiting for %s to start"


def _summarize(names: list[str]) -> str:
    """Return `node-0, node-1 and 8 more`."""
    more = f" and {len(names) - _MAX_NODES_LISTED} more" if len(names) > _MAX_NODES_LISTED else ""
    return ", ".join(names[:_MAX_NODES_LISTED]) + more
