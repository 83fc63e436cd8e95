"""What a task waits for, told once for all nodes that wait for the same."""

from collections import defaultdict

from kubectl_sky.observe.nodes import RETRYING, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.workloads.workload import STOPPED

# What the kubelet says while all goes well; it explains nothing.
USUAL = ("", "ContainerCreating", "PodInitializing")
_MOST = 4


def notes(task: TaskStatus, patient: bool) -> list[str]:
    """Return a line for each thing that nodes wait for, and for each way in which nodes failed.

    While `patient` is true, a start that takes its usual course is not mentioned.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    others = "are being stopped" if task.workload.together else "go on"
    for node in task.nodes:
        message = node.message and f": {node.message}"
        if node.reason == STOPPED:
            continue  # what it was stopped for is told
        if node.state is State.FAILED and not task.over:
            groups[f"%s failed: {node.reason}; the other nodes {others}"].append(node.name)
        elif node.reason == RETRYING:
            groups[f"%s failed and starts again{message}"].append(node.name)
        elif node.state is State.PENDING and node.reason not in USUAL:
            groups[f"waiting for %s: {node.reason}{message}"].append(node.name)
        elif node.state is State.PENDING and not patient:
            groups["waiting for %s to start"].append(node.name)
    return [text.replace("%s", _some(found), 1) for text, found in groups.items()]


def _some(found: list[str]) -> str:
    """`node-0, node-1 and 8 more`."""
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return ", ".join(found[:_MOST]) + more
