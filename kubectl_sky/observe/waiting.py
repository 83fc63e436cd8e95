"""What a task waits for, told once for all nodes that wait for the same."""

from collections import defaultdict

from kubectl_sky.observe.nodes import RETRYING, NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.workloads.workload import STOPPED

# What the kubelet says while all goes well; it explains nothing.
USUAL = ("", "ContainerCreating", "PodInitializing")
_MOST = 4


def notes(task: TaskStatus, patient: bool, stopping: bool = False) -> list[str]:
    """Return a line for each thing that nodes wait for, and for each way in which nodes failed.

    While `patient` is true, a start that takes its usual course is not mentioned; `stopping` says
    that somebody ends the nodes that go on after one failed.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for node in task.nodes:
        text = _failed(task, node, stopping) or _told(task, node, patient)
        if text:
            groups[text].append(node.name)
    if task.workload.apart:  # each for itself, so that none is told of twice
        every = [text.replace("%s", name, 1) for text, found in groups.items() for name in found]
        return list(dict.fromkeys(every))
    return [text.replace("%s", _some(found), 1) for text, found in groups.items()]


def _failed(task: TaskStatus, node: NodeStatus, stopping: bool) -> str:
    """What there is to say of a node that failed, and of what becomes of the others."""
    if node.state is not State.FAILED or task.over or node.reason == STOPPED:
        return ""  # what it was stopped for is told
    if task.workload.apart:
        return f"%s failed: {node.reason}"
    others = "are being stopped" if stopping or task.workload.together else "go on"
    return f"%s failed: {node.reason}; the other nodes {others}"


def _told(task: TaskStatus, node: NodeStatus, patient: bool) -> str:
    """What there is to say of a node, with %s for its name; empty where there is nothing."""
    message = node.message and f": {node.message}"
    if node.reason == RETRYING:
        return f"%s failed and starts again{message}"
    if node.state is not State.PENDING:
        return ""
    if node.reason not in USUAL:
        whom = "tasks" if task.workload.apart else "%s"  # they come and go by the hundred
        return f"waiting for {whom}: {node.reason}{message}"
    return "" if patient or task.workload.apart else "waiting for %s to start"


def _some(found: list[str]) -> str:
    """`node-0, node-1 and 8 more`."""
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return ", ".join(found[:_MOST]) + more
