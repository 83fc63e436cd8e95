"""`kubectl sky status`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click
from msgspec import UNSET
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, ports, tasks
from kubectl_sky.errors import UnknownName, UserError
from kubectl_sky.observe.documents import Task, TaskList
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.observe.pipelines import PipelineStatus
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.find import Scope, Target


@commands.command(
    "status",
    examples=[
        "status train",
        "status train --watch",
        "status 'train-*' eval",
        "status train --timeline",
        "status train --goodput",
        "status web --ports",
        "status train -o jsonpath={.metadata.detailed_status}",
    ],
)
@options.tasks
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml", "name")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until the task has finished.")
@click.option(
    "--timeline",
    is_flag=True,
    help="Show when each node was queued, scheduled, started and run.",
)
@click.option(
    "--goodput",
    is_flag=True,
    help="Show what its time went into: the queue, the start, steps, repeated steps, stalls.",
)
@click.option(
    "--ports",
    is_flag=True,
    help="Show the endpoints of its ports: at its Service, and outside the cluster.",
)
def command(
    choice: "Choice",
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    **flags: bool,
) -> None:
    """Show each TASK and its nodes.

    TASK is an id, a prefix of an id, or a name: the newest task of that name; a glob in quotes
    means all tasks whose name or id it matches. Without TASK, show your last task.

    A pipeline or group is shown with all its tasks.

    The Service of --ports leads to rank 0. POD-READY shows whether rank 0 has a running pod;
    Kubernetes does not know whether a program listens on the port.
    """
    from kubectl_sky.tasks import evidence, history, pending

    _check(form, flags)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    if choice.may_be_several:
        _show_several(session, scope, choice, form, flags)
        return
    try:
        session, match = tasks.locate_or_show_evidence(session, scope, choice)
    except UnknownName:
        reference = next(iter(choice.references), None)
        deleted = flags["goodput"] and history.find_deleted(session, scope, reference)
        if not deleted:
            raise
        match = deleted
    for name, show in _VIEWS.items():
        if flags[name]:
            show(session, scope, match, form)
            return
    if flags["watch"]:
        _watch(session, scope, match, form)
        return
    match = pending.explain_target(session, match)
    record = evidence.of_deleted_pods(session, match) if isinstance(match, TaskStatus) else None
    output.out(_format(match, form, record))


def _check(form: str | None, flags: Mapping[str, bool]) -> None:
    if sum(flags.values()) > 1:
        raise UserError("--watch, --timeline, --goodput and --ports exclude each other")
    for name in ("timeline", "goodput"):
        if flags[name] and form == "name":
            raise UserError(f"--{name} excludes -o name")


def _show_timeline(session: "Session", _scope: "Scope", match: "Target", form: str | None) -> None:
    from kubectl_sky.cli.timeline import format_timeline
    from kubectl_sky.tasks import find, timeline

    times = timeline.read(session, find.tasks_of(match))
    text = output.data(times, form) if form else format_timeline(times)
    output.out(text if form else f"{tasks.line(match)}\n\n{text}")


def _show_goodput(session: "Session", scope: "Scope", match: "Target", form: str | None) -> None:
    from kubectl_sky.cli.goodput import format_goodput
    from kubectl_sky.tasks import find, goodput

    uses = goodput.read(session, scope, find.tasks_of(match))
    output.out(output.data(uses, form) if form else format_goodput(uses))


def _show_ports(session: "Session", _scope: "Scope", match: "Target", form: str | None) -> None:
    ports.show(session, match, form)


_VIEWS = {"timeline": _show_timeline, "goodput": _show_goodput, "ports": _show_ports}


def _show_several(
    session: "Session",
    scope: "Scope",
    choice: "Choice",
    form: str | None,
    flags: Mapping[str, bool],
) -> None:
    """Show tasks one after the other; programs get one list."""
    from kubectl_sky.tasks import evidence, find, pending
    from kubectl_sky.tasks.choice import find_targets

    if any(flags.values()):
        flag = next(name for name, is_given in flags.items() if is_given)
        raise UserError(f"--{flag} shows one task", "name one TASK")

    targets = find_targets(session, scope, choice)
    targets = pending.explain_targets(session, scope.namespace, targets)
    explained = [task for target in targets for task in find.tasks_of(target)]

    if form == "name":
        output.names(map(tasks.name, targets))
    elif form:
        whole = [target.document for target in targets if not isinstance(target, TaskStatus)]
        documents = [_document(task, evidence.of_deleted_pods(session, task)) for task in explained]
        document = TaskList(tasks=documents, pipelines=whole or UNSET)
        output.out(output.data(document, form))
    elif targets:
        texts = []
        for target in targets:
            if isinstance(target, TaskStatus):
                record = evidence.of_deleted_pods(session, target)
                texts.append(_format(target, form, record))
            else:
                texts.append(_format(target, form))
        output.out("\n\n\n".join(texts))
    else:
        output.note("No tasks found.")


def _format(
    target: "TaskStatus | PipelineStatus", form: str | None, record: "Evidence | None" = None
) -> str:
    if form == "name":
        return tasks.name(target)
    if form:
        if isinstance(target, TaskStatus):
            return output.data(_document(target, record), form)
        return output.data(target.document, form)
    if isinstance(target, TaskStatus):
        return tasks.details(target) + (f"\n\n{tasks.format_evidence(record)}" if record else "")
    return tasks.pipeline_details(target)


def _document(task: TaskStatus, record: "Evidence | None") -> Task:
    document = task.document
    if not record:
        return document
    deaths = list(record.deaths)
    return replace(document, metadata=replace(document.metadata, evidence=deaths))


def _watch(session: "Session", scope: "Scope", target: "Target", form: str | None) -> None:
    """Show the task or pipeline again after each change, until it has finished.

    On a terminal its ages are updated every second.
    """
    from kubectl_sky.tasks import pending

    screen = output.LiveText(form)
    latest = target
    if isinstance(target, TaskStatus):
        updates: Iterator[Target | None] = pending.watch_task(session, target)
    else:
        updates = pending.watch_pipeline(session, scope, target)
    for update in updates:
        latest = update or latest
        if update or screen.is_outdated:
            screen.show(_format(latest, form))
        is_over = latest.finished if isinstance(latest, TaskStatus) else latest.state.ended
        if update and is_over:
            return
