"""How tasks are shown: tables for people, the seed's JSON for programs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kubectl_sky.cli import output
from kubectl_sky.observe import age
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.pipelines import PipelineStatus, grouped
from kubectl_sky.observe.status import TaskStatus

_MOST = 100  # nodes that are listed one by one
FORMATS = ("wide", "json", "yaml", "name")


def since(time: str) -> str:
    """How long ago a time was, as kubectl says it."""
    return age.since(time, datetime.now(UTC))


def listing(tasks: Sequence[TaskStatus], form: str | None, columns: Sequence[str]) -> str:
    """Write many tasks; `columns` are the extra ones that the flags ask for."""
    if form == "name":
        return "\n".join(f"task/{task.id}" for task in tasks)
    if form not in (None, "wide"):
        return output.data({"tasks": [task.as_json() for task in tasks]}, form)
    wide = form == "wide"
    names = [
        "ID",
        "NAME",
        "STATUS",
        "NODES",
        "AGE",
        *columns,
        *(["UPDATED", "NOTE"] if wide else []),
    ]
    return output.table(names, [[_CELLS[name](row) for name in names] for row in _rows(tasks)])


def _rows(tasks: Sequence[TaskStatus]) -> Iterator[TaskStatus | PipelineStatus]:
    """Yield a row for each task, those of a pipeline behind one for the whole."""
    for each in grouped(tasks):
        yield each
        if isinstance(each, PipelineStatus):
            yield from (replace(task, name=f"{each.name}/{task.name}") for task in each.tasks)


def name(target: TaskStatus | PipelineStatus) -> str:
    """Name a task or pipeline for other commands: `task/ID`."""
    return f"{'task' if isinstance(target, TaskStatus) else target.word}/{target.id}"


def nodes(task: TaskStatus | PipelineStatus) -> str:
    """How many nodes have got where the task is going; of a pipeline, how many tasks."""
    if isinstance(task, PipelineStatus):
        return f"{task.count(State.COMPLETED)}/{task.place.stages} tasks"
    ended = task.state is State.COMPLETED or task.workload.apart
    done = task.count(State.COMPLETED if ended else State.RUNNING)
    return f"{done}/{task.num_nodes}"


_CELLS: dict[str, Callable[[TaskStatus | PipelineStatus], str]] = {
    "ID": lambda task: task.id,
    "NAME": lambda task: task.name,
    "STATUS": lambda task: str(task.state),
    "NODES": nodes,
    "AGE": lambda task: since(task.created_at),
    "UPDATED": lambda task: since(task.updated_at),
    "NAMESPACE": lambda task: task.namespace,
    "USER": lambda task: task.user,
    "JOBS": lambda task: _some(_jobs(task)),
    "NOTE": lambda task: task.note,
}


def _jobs(task: TaskStatus | PipelineStatus) -> list[str]:
    """The objects that run a task; those of a pipeline stand beside its tasks."""
    return [node.job for node in task.nodes] if isinstance(task, TaskStatus) else []


def _some(items: Sequence[str], most: int = 3) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ",".join(items[:most]) + more


def details(task: TaskStatus) -> str:
    """Write one task in full, as `kubectl describe` does."""
    counts = [f"{task.count(state)} {state}" for state in State if task.count(state)]
    facts = {
        "Id": task.id,
        "Name": task.name,
        "Status": f"{task.state}{_finer(task)}{f' — {task.note}' if task.note else ''}",
        "Namespace": task.namespace,
        "User": task.user,
        "Backend": task.backend,
        "Created": f"{task.created_at} ({since(task.created_at)} ago)",
        "Updated": f"{task.updated_at} ({since(task.updated_at)} ago)",
        "Nodes": f"{task.num_nodes} ({', '.join(counts)})",
    }
    head = "\n".join(output.fields(facts))
    shown = task.nodes if len(task.nodes) <= _MOST else _telling(task)
    rows = [
        [
            str(node.index),
            str(node.state),
            "" if node.exit_code is None else str(node.exit_code),
            str(node.restarts),
            _duration(node),
            node.reason,
            node.host,
            node.job,
            node.pod,
        ]
        for node in shown
    ]
    header = ["NODE", "STATUS", "EXIT", "RESTARTS", "FOR", "REASON", "HOST", "JOB", "POD"]
    table = output.table(header, rows) if rows else "All have completed."
    messages = dict.fromkeys(node.message for node in task.nodes if node.message)
    notes = "".join(f"\n{message}" for message in list(messages)[:5])
    left = len(task.nodes) - len(shown)
    more = f"\n… and {left} more; `-o json` has all" if left and shown else ""
    return f"{head}\n\n{table}{more}{notes and chr(10)}{notes}"


def _duration(node: NodeStatus) -> str:
    """How long its container has run, or ran."""
    if not node.started_at:
        return ""
    return age.since(
        node.started_at, age.parse(node.ended_at) if node.ended_at else datetime.now(UTC)
    )


def _finer(task: TaskStatus) -> str:
    """SkyPilot's word for the state, where it says more."""
    word = str(task.job_status)
    plain = {str(State.COMPLETED): "SUCCEEDED"}.get(str(task.state), str(task.state).upper())
    return "" if word == plain else f" ({word})"


def _telling(task: TaskStatus) -> Sequence[NodeStatus]:
    """The nodes of many that a person looks for: failed ones first, then those under way."""
    order = (State.FAILED, State.RUNNING, State.PENDING)
    found = [node for state in order for node in task.nodes if node.state is state]
    return found[:_MOST]
