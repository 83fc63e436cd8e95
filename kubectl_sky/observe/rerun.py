"""Advise how to run only the failed indexes of an array again."""

import shlex
from collections.abc import Sequence

from kubectl_sky.observe.findings import ranges
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus


def advise_rerun(task: TaskStatus) -> str:
    """Return how to run only the failed indexes of an array again; empty if it is no array.

    If no flags stand for all of these, it is how to run the first one.
    """
    failed = [node.index for node in task.nodes if node.state is State.FAILED]
    is_part = 0 < len(failed) < len(task.nodes)
    if not (is_part and task.finished and task.workload.independent_nodes) or task.member:
        return ""

    what = "what failed"
    flags = _select(task, failed)
    if not flags:
        what = task.title(failed[0])
        flags = _select(task, failed[:1])
    command = shlex.join(["kubectl", "sky", "rerun", task.id, *flags])
    return f"rerun only {what}: `{command}`" if flags else ""


def _select(task: TaskStatus, indexes: Sequence[int]) -> list[str]:
    """Return the flags of submit that stand for these indexes of an array; empty if none do."""
    if task.sweep:
        return task.sweep.flags(indexes)
    spans = ("-".join(map(str, dict.fromkeys(pair))) for pair in ranges(indexes))
    return ["--array", ",".join(spans)]
