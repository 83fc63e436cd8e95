"""What a task waits for, told once for all nodes that wait for the same."""

from collections import defaultdict

from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus

# What the kubelet says while all goes well; it explains nothing.
USUAL = ("", "ContainerCreating", "PodInitializing")
_MOST = 4


def notes(task: TaskStatus, patient: bool) -> list[str]:
    """Return a line for each thing that nodes wait for, and for each way in which nodes failed.

    While `patient` is true, a start that takes its usual course is not mentioned.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for node in task.nodes:
        message = node.message and f": {node.message}"
        if node.state is State.FAILED and not task.over:
            groups[f"%s failed: {node.reason}; the other nodes go on"].append(node.index)
        elif node.state is State.PENDING and node.reason not in USUAL:
            groups[f"waiting for %s: {node.reason}{message}"].append(node.index)
        elif node.state is State.PENDING and not patient:
            groups["waiting for %s to start"].append(node.index)
    return [text.replace("%s", _ranks(ranks), 1) for text, ranks in groups.items()]


def _ranks(ranks: list[int]) -> str:
    """`node-0, node-1 and 8 more`."""
    more = f" and {len(ranks) - _MOST} more" if len(ranks) > _MOST else ""
    return ", ".join(f"node-{rank}" for rank in ranks[:_MOST]) + more
