"""Format tasks, pipelines and the evidence of deleted ones: for people, and JSON for programs."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.cli import output
from kubectl_sky.observe.documents import TaskList
from kubectl_sky.observe.failure import program_lines
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.pipelines import PipelineStatus, grouped, reason
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age, names

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.find import Scope, Target


_HASH = re.compile(r"(sha256 [0-9a-f]{12})[0-9a-f]+")
_MAX_LISTED_NODES = 100  # nodes that are listed individually
_MAX_LAST_LINES = 10  # log lines shown of a deleted pod
_MAX_DEPTH = 5  # of the branches of a long pipeline
_MAX_OTHERS = 5  # nodes shown that failed after the first
FORMATS = ("wide", "json", "yaml", "name")


def since(time: str) -> str:
    """Return the age of a time in kubectl's format."""
    return age.since(time, datetime.now(UTC))


def listing(
    tasks: Sequence[TaskStatus],
    form: str | None,
    columns: Sequence[str],
    variables: Sequence[str] = (),
    gpu_hours: Mapping[tuple[str, str], float] = MappingProxyType({}),
    everything: Sequence[TaskStatus] = (),
) -> str:
    """Format a list of tasks; `columns` are the extra ones that the flags request.

    `variables` are those of task files that have a column. `everything` also has the tasks of
    their pipelines that are not listed.
    `gpu_hours` has those of each task, by namespace and id, for a column of the wide format;
    without any, it has no such column. So it is with the goodput.
    """
    if form == "name":
        return "\n".join(f"task/{task.id}" for task in tasks)
    if form not in (None, "wide"):
        return output.data(TaskList(tasks=[task.document for task in tasks]), form)

    wide = form == "wide"
    titles = [
        "ID",
        "NAME",
        "STATUS",
        "NODES",
        "AGE",
        *variables,
        *columns,
        *(["UPDATED"] if wide else []),
        *(["GPU-HOURS"] if wide and gpu_hours else []),
        *(["GOODPUT"] if wide and any(task.goodput for task in tasks) else []),
        *(["REASON"] if wide else []),
    ]

    rows = list(_rows(tasks, everything or tasks))
    if not wide and any(map(reason, rows)):
        titles.append("REASON")
    titles.sort(key="LABELS".__eq__)  # the last one, as in kubectl
    titles.sort(key="NAMESPACE".__ne__)  # the first one, as in kubectl

    make: dict[str, Callable[[TaskStatus | PipelineStatus], str]] = _CELLS | {
        "GPU-HOURS": partial(_gpu_hours, gpu_hours=gpu_hours)
    }
    if wide:  # with restarts, and the cause of completed tasks, too
        make["REASON"] = lambda task: task.note
    make = {name: partial(_variable, name=name) for name in variables} | make
    cells = [[make[title](row) for title in titles] for row in rows]
    of_others = _OF_OTHERS if wide else ()
    cut = (*_LEAST_IMPORTANT, *of_others, *reversed(variables))
    return output.table(titles, cells, cut=cut)


def _variable(target: TaskStatus | PipelineStatus, name: str) -> str:
    return target.variables.get(name, "") if isinstance(target, TaskStatus) else ""


def incomplete(tasks: Iterable[TaskStatus]) -> Iterator[str]:
    """Yield a warning for each task whose submit was interrupted, and how to go on."""
    for task in tasks:
        if task.incomplete and not task.deletion.since:
            yield f'warning: task "{task.name}" ({task.id}) is {task.note}; {task.next_step}'


def _rows(
    tasks: Sequence[TaskStatus], everything: Sequence[TaskStatus]
) -> Iterator[TaskStatus | PipelineStatus]:
    """Yield a row for each task; a pipeline's tasks follow a row for the whole pipeline."""
    whole = {(item.namespace, item.id): item for item in grouped(everything)}
    for item in grouped(tasks):
        if isinstance(item, PipelineStatus):
            yield whole.get((item.namespace, item.id), item)
            yield from (replace(task, name=f"{item.name}/{task.name}") for task in item.tasks)
        else:
            yield item


def name(target: TaskStatus | PipelineStatus) -> str:
    """Return the name of a task or pipeline for other commands, such as `task/ID`."""
    return f"{'task' if isinstance(target, TaskStatus) else target.word}/{target.id}"


def line(target: TaskStatus | PipelineStatus) -> str:
    note = f": {target.note}" if target.note else ""
    return f"{name(target)} ({target.name}) {output.in_color(_state(target))}{note}"


def nodes(task: TaskStatus | PipelineStatus) -> str:
    """Format how many nodes run or have completed; of a pipeline, how many tasks are done."""
    if isinstance(task, PipelineStatus):
        done = task.count(State.COMPLETED) + task.num_stopped
        return f"{done}/{task.first_member.stages} tasks"
    return f"{task.ready}/{task.num_nodes}"


_CELLS: dict[str, Callable[[TaskStatus | PipelineStatus], str]] = {
    "ID": lambda task: task.id,
    "NAME": lambda task: task.name,
    "STATUS": lambda task: _state(task),
    "NODES": nodes,
    "AGE": lambda task: since(task.created_at),
    "UPDATED": lambda task: since(task.updated_at),
    "NAMESPACE": lambda task: task.namespace,
    "USER": lambda task: task.user,
    # Those of a pipeline are in its tasks' rows.
    "JOBS": lambda task: _first_items(
        [node.job for node in task.nodes] if isinstance(task, TaskStatus) else []
    ),
    "GOODPUT": lambda task: _goodput(task) if isinstance(task, TaskStatus) else "",
    "REASON": reason,
    "LABELS": lambda task: names.selector(task.labels if isinstance(task, TaskStatus) else {}),
}
# Columns that a narrow terminal does not show, the first ones first; then those of variables. Those
# that tell tasks of other users and namespaces apart are left out of the wide format only.
_LEAST_IMPORTANT = ("GOODPUT", "GPU-HOURS", "UPDATED", "JOBS", "NODES", "AGE")
_OF_OTHERS = ("USER", "NAMESPACE")


def _state(target: TaskStatus | PipelineStatus) -> str:
    if isinstance(target, TaskStatus):
        return target.state_at(datetime.now(UTC))
    return str(target.state)


def _goodput(task: TaskStatus) -> str:
    percent = task.goodput_percent
    return "-" if percent is None else f"{percent:.0f}%"


def _gpu_hours(
    target: TaskStatus | PipelineStatus, gpu_hours: Mapping[tuple[str, str], float]
) -> str:
    tasks = [target] if isinstance(target, TaskStatus) else target.tasks
    hours = [gpu_hours[key] for task in tasks if (key := (task.namespace, task.id)) in gpu_hours]
    return f"{sum(hours):.1f}" if hours else "-"


def _first_items(items: Sequence[str]) -> str:
    return ",".join(items[:3]) + (f" and {len(items) - 3} more" if items[3:] else "")


def details(task: TaskStatus) -> str:
    counts = [f"{task.count(state)} {state}" for state in State if task.count(state)]
    word = str(task.detailed_status)
    state = _state(task)
    specific = "" if word == task.state else f" ({word})"

    facts = {
        "Id": task.id,
        "Name": task.name,
        "Status": f"{state}{specific}{_suffix(task)}",
        "Namespace": task.namespace,
        "User": task.user,
        "Backend": task.backend,
        "Created": f"{task.created_at} ({since(task.created_at)} ago)",
        "Updated": f"{task.updated_at} ({since(task.updated_at)} ago)",
        "Nodes": f"{task.num_nodes} ({', '.join(counts)})",
    }
    if task.next_step:
        facts["Next"] = task.next_step
    if mounts := task.requested.mounts:
        facts["Volumes"] = ", ".join(f"{mount.path} ({mount.pvc})" for mount in mounts)
    if task.state.ended and task.results_step:
        facts["Results"] = task.results_step
    if task.files:
        facts["Files"] = "; ".join(_describe_files(task))
    head = "\n".join(output.fields(facts))

    visible = task.nodes
    if len(visible) > _MAX_LISTED_NODES:
        order = (State.FAILED, State.RUNNING, State.PENDING)
        relevant = [node for state in order for node in task.nodes if node.state is state]
        visible = tuple(relevant[:_MAX_LISTED_NODES])

    swept = list(task.sweep.variables) if task.sweep else []
    rows = [
        [
            str(node.index),
            *(node.sweep.get(name, "") for name in swept),
            str(node.state),
            "" if node.exit_code is None else str(node.exit_code),
            str(node.restarts),
            _duration(node),
            _reason(node),
            node.host,
            node.job,
            node.pod,
        ]
        for node in visible
    ]
    header = ["NODE", *swept, "STATUS", "EXIT", "RESTARTS", "FOR", "REASON", "HOST", "JOB", "POD"]
    cut = ("JOB", "POD", "HOST", "RESTARTS", "FOR")
    table = output.table(header, rows, cut=cut) if rows else "All have completed."

    messages = dict.fromkeys(node.message for node in task.nodes if node.message)
    notes = "".join(f"\n{message}" for message in list(messages)[:5])
    omitted = len(task.nodes) - len(visible)
    more = f"\n… and {omitted} more; `-o json` has all" if omitted and visible else ""
    return f"{head}\n\n{table}{more}{notes and chr(10)}{notes}"


def _describe_files(task: TaskStatus) -> Iterator[str]:
    for path, about in task.files.items():
        commit = f", commit {task.revisions[path]}" if path in task.revisions else ""
        short = _HASH.sub(r"\1…", about)
        yield f"{path}: {short}{commit}"


def _suffix(task: TaskStatus | PipelineStatus) -> str:
    return f" — {task.note}" if task.note else ""


def _reason(node: NodeStatus) -> str:
    in_setup = node.setup_since and not node.reason
    return f"setup {since(node.setup_since)}" if in_setup else node.reason


def _duration(node: NodeStatus) -> str:
    if not node.started_at:
        return ""
    return age.since(node.started_at, age.parse(node.ended_at) or datetime.now(UTC))


def pipeline_details(pipeline: PipelineStatus) -> str:
    """Format a pipeline in full: the common fields, then a row for each task."""
    stopped = f", {pipeline.num_stopped} stopped" if pipeline.num_stopped else ""
    completed = f"{pipeline.count(State.COMPLETED)} of {pipeline.first_member.stages} completed"

    facts = {
        "Id": pipeline.id,
        "Name": pipeline.name,
        "Status": f"{pipeline.state}{_suffix(pipeline)}",
        "Execution": "parallel" if pipeline.first_member.parallel else "serial",
        "Namespace": pipeline.namespace,
        "User": pipeline.user,
        "Created": f"{pipeline.created_at} ({since(pipeline.created_at)} ago)",
        "Updated": f"{pipeline.updated_at} ({since(pipeline.updated_at)} ago)",
        "Tasks": completed + stopped,
    }
    if pipeline.to_resume:
        facts["Next"] = f"kubectl sky wait {pipeline.id} --continue"
    head = "\n".join(output.fields(facts))

    state_of_missing = "cancelled" if pipeline.failed else "not found"
    rows = {
        pipeline.stage(task): [task.id, task.name, _state(task), nodes(task), task.note]
        for task in pipeline.tasks
    } | {
        stage: [
            pipeline.task_id(stage),
            pipeline.title(stage),
            "stopped" if stage in pipeline.first_member.auxiliary else state_of_missing,
            "",
            "",
        ]
        for stage in pipeline.missing
    }

    table = output.table(
        ["STAGE", "ID", "NAME", "STATUS", "NODES", "NOTE"],
        [[_branch(pipeline, stage), *rows[stage]] for stage in sorted(rows)],
    )
    return f"{head}\n\n{table}"


def _branch(pipeline: PipelineStatus, stage: int) -> str:
    """Return the number of a stage; on a terminal as a branch of those that it waits for."""
    first = stage == 1
    parallel = pipeline.first_member.parallel
    if not sys.stdout.isatty() or (first and not parallel):
        return str(stage)
    depth = 0 if parallel else min(stage - 2, _MAX_DEPTH)
    corner = "├" if parallel and stage < pipeline.first_member.stages else "└"
    return f"{'  ' * depth}{corner}─ {stage}"


def locate_or_show_evidence(
    session: "Session", scope: "Scope", choice: "Choice"
) -> "tuple[Session, Target]":
    """Return the chosen task or pipeline, or the last one, with its cluster's session.

    If it is deleted, show its evidence. Raises UserError unless one matches.
    """
    from kubectl_sky.cli import submits
    from kubectl_sky.tasks import evidence
    from kubectl_sky.tasks.find import TaskNotFound
    from kubectl_sky.tasks.multikueue import locate

    reference = next(iter(choice.references), None)
    try:
        return locate(session, scope, reference)
    except TaskNotFound:
        record = reference and evidence.of_deleted_task(
            session, scope.namespace, scope.user, reference
        )
        if record:
            end = f"\n{format_evidence(record)}" if record.deaths else ""
            output.note(f"task {record.task_id} ({record.name}) was deleted{end}")
        elif submit := reference and submits.of_task(session, session.namespace, reference):
            output.note(
                f"task {reference} was submitted from this machine and deleted since;"
                f" in {submit.folder}: {submit.command}"
            )
        raise


def format_evidence(evidence: "Evidence") -> str:
    """Describe deleted pods: how they ended, and the last log lines of the first."""
    first, *others = evidence.deaths
    lines = program_lines(first.lines)[-_MAX_LAST_LINES:]
    when = f" at {first.ended_at}" if first.ended_at else ""
    head = f"first failed {first.name}: {first.end}{when}, pod {first.pod}"
    more = [f"then {death.name}: {death.end}, pod {death.pod}" for death in others[:_MAX_OTHERS]]
    if others[_MAX_OTHERS:]:
        more.append(f"and {len(others) - _MAX_OTHERS} more")
    if lines:
        head += "; its last lines:"
    return "\n".join(["Kept on this machine:", head, *(f"  {line}" for line in lines), *more])
