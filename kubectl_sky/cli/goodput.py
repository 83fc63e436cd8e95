"""Format what the time of tasks went into: a row for each use, and the pace of each node."""

from collections.abc import Iterator
from datetime import timedelta

from kubectl_sky.cli import output
from kubectl_sky.observe.goodput import Goodput, TaskGoodput
from kubectl_sky.observe.uses import Use
from kubectl_sky.words import age

_MAX_ROWS = 20
_CHANGED = 1.05  # times the step of the former task


def format_goodput(goodput: Goodput) -> str:
    return "\n\n".join("\n".join(_format_task(task)) for task in goodput.tasks)


def _format_task(task: TaskGoodput) -> Iterator[str]:
    yield f"{task.name} ({task.task_id}) {task.status}: {_summary(task)}"
    if not task.shares:
        return
    yield ""
    has_gpus = any(it.gpu_hours is not None for it in task.shares)
    header = ["TIME FOR", "EACH NODE", "SHARE", *(["GPU-HOURS"] if has_gpus else [])]
    rows = []
    for it in task.shares:
        hours = "-" if it.gpu_hours is None else f"{it.gpu_hours:.1f}"
        each = _duration(it.seconds / len(task.nodes))
        rows.append([it.use, each, f"{it.percent:.1f}%", *([hours] if has_gpus else [])])
    yield output.table(header, rows)

    known = [node for node in task.nodes if node.step_seconds is not None]
    if known:
        yield ""
        yield output.table(
            ["NODE", "STEPS", "STEP-TIME", "LATEST", "SLOWER-SINCE"],
            [
                [
                    node.name,
                    str(node.steps),
                    _seconds(node.step_seconds),
                    _seconds(node.latest_seconds),
                    node.slow_since or "-",
                ]
                for node in known[:_MAX_ROWS]
            ],
        )
    if len(known) > _MAX_ROWS:
        yield f"… and {output.count(len(known) - _MAX_ROWS, 'more node')}; `-o json` has all"
    if task.slow_since:
        yield f"slow as a whole since {task.slow_since}"
    if former := _compare(task):
        yield former
    yield from task.notes


def _summary(task: TaskGoodput) -> str:
    length = age.duration(timedelta(seconds=task.seconds))
    if not task.shares:
        return f"too short to measure: {length}"
    uses = {it.use for it in task.shares}
    if Use.UNKNOWN in uses and Use.STEPS not in uses:
        return f"it is not known what {length} went into"
    if Use.STEPS not in uses:
        return f"no steps in {length}"
    return f"{task.percent:.0f}% of {length} went into new steps"


def _compare(task: TaskGoodput) -> str:
    """Return how the steps differ from those of the former task; empty if they do not."""
    now = task.step_seconds
    before = task.former_step_seconds
    if not now or not before or 1 / _CHANGED < now / before < _CHANGED:
        return ""
    change = "longer" if now > before else "less long"
    percent = abs(now / before - 1) * 100
    return f"a step takes {percent:.0f}% {change} than in {task.former} ({_seconds(before)})"


def _duration(seconds: float) -> str:
    return age.duration(timedelta(seconds=round(seconds)))


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3g}s"
