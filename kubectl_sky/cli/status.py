"""`kubectl sky status`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.observe.pipelines import PipelineStatus


@commands.command(
    "status",
    examples=[
        "status train",
        "status train --watch",
        "status train -o jsonpath={.metadata.detailed_status}",
    ],
)
@click.argument("task", required=False)
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml", "name")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until the task has finished.")
def command(
    task: str | None, cluster: options.ClusterFlags, all_users: bool, form: str | None, watch: bool
) -> None:
    """Show TASK and each of its nodes.

    TASK is an id, a prefix of an id, or a name: the newest task of that name. Without TASK, show
    your last task.

    A pipeline or group is shown with all its tasks.
    """
    from kubectl_sky.actions import evidence, pending

    session = cluster.session()
    match = tasks.get_or_show_evidence(session, options.scope(session, cluster, all_users), task)
    if watch and isinstance(match, TaskStatus):
        _watch(session, match, form)
        return
    if isinstance(match, TaskStatus):
        match = pending.explain_pending(session, match)
        output.out(_format(match, form, evidence.of_deleted_pods(session, match)))
        return
    output.out(_format(match, form))


def _format(
    target: "TaskStatus | PipelineStatus", form: str | None, record: "Evidence | None" = None
) -> str:
    if form == "name":
        return tasks.name(target)
    if form:
        return output.data(_as_json(target, record), form)
    if isinstance(target, TaskStatus):
        return tasks.details(target) + (f"\n\n{tasks.format_evidence(record)}" if record else "")
    return tasks.pipeline_details(target)


def _as_json(target: "TaskStatus | PipelineStatus", record: "Evidence | None") -> dict[str, object]:
    value = target.as_json()
    metadata = value.get("metadata")
    if record and isinstance(metadata, dict):
        metadata["evidence"] = [death.as_json() for death in record.deaths]
    return value


def _watch(session: "Session", task: TaskStatus, form: str | None) -> None:
    """Show the task again after each change, until all its nodes have finished.

    On a terminal its ages are updated every second.
    """
    from kubectl_sky.actions import pending, watch

    screen = output.LiveText()
    latest = task
    for snapshot in watch.watch_task(session, task):
        if snapshot:
            latest = pending.explain_pending(session, snapshot.task)
        if snapshot or screen.is_outdated:
            screen.show(_format(latest, form))
        if snapshot and snapshot.task.over:
            return
