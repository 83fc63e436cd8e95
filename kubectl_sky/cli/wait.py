"""`kubectl sky wait`."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import TaskFailed, UserError
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.actions.find import Target
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.words import models

_MAX_VERDICTS = 10  # failed tasks whose cause is looked for


def _url(context: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check the URL of --notify before the wait; its path may be a secret."""
    from kubectl_sky.actions import notify

    try:
        if value is not None:
            notify.check(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, param) from None
    return value


@commands.command(
    "wait",
    examples=[
        "wait train",
        "wait train --timeout 1h",
        "wait PIPELINE --continue",
        "wait train --notify https://hooks.example.com/T0/B0",
    ],
)
@click.argument("references", nargs=-1, metavar="[TASK...]")
@options.cluster_all_namespaces
@options.all_users
@click.option("--timeout", type=options.DURATION, help="Time limit (default: none).")
@click.option(
    "--continue",
    "leads",
    is_flag=True,
    help="Act as submit does while it follows: resume each stage of a pipeline when the one before"
    " it has succeeded, cancel what is left when one fails, and stop the other nodes of a failed"
    " task.",
)
@click.option(
    "--notify",
    "url",
    metavar="URL",
    envvar="KUBECTL_SKY_NOTIFY",
    callback=_url,
    help="POST a JSON document to this https URL when all have finished (default:"
    " $KUBECTL_SKY_NOTIFY).",
)
@options.output("json", "yaml", "name")
def command(
    references: tuple[str, ...],
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    **flags: Any,  # noqa: ANN401 -- click's own types
) -> int:
    """Wait until TASKs, or all tasks of pipelines, have completed or failed.

    Without TASK, wait for your last task.

    Exits with 0 if all have completed, with 4 if one has failed, and with 1 at the timeout.

    A task has failed when one of its nodes has failed for good. With the backends jobs and volcano,
    its other nodes go on until submit, this command with --continue, or the tasks controller stops
    them; with others the cluster stops them.

    On a terminal, one line shows what the tasks wait for or where they run; in a pipe, stderr has a
    line for each stage of the start.

    --notify sends ids, names, states and reasons, but no logs. If it fails, that is a warning.

    With --continue, it continues tasks and pipelines of yours that were submitted with --detach or
    interrupted.
    """
    from kubectl_sky.actions import find, notify
    from kubectl_sky.actions.pipeline import wait_for_all

    if flags["leads"] and all_users:
        raise UserError(
            "--continue cannot be combined with --all-users: the owner continues a task",
            "name the owner with --user, if you act for somebody",
        )
    session = cluster.session()
    targets = find.get_targets(
        session, options.scope(session, cluster, all_users), references or [None]
    )
    timeout = flags["timeout"]
    limit = timeout.total_seconds() if isinstance(timeout, timedelta) else None
    try:
        finished = wait_for_all(session, targets, limit, Terminal(), flags["leads"])
    except TaskFailed as error:
        _notify(flags["url"], notify.stopped(error.what))
        raise
    try:
        _print(session, finished, form)
    finally:  # also if stdout is a closed pipe
        _notify(flags["url"], notify.finished(finished))
    return 0 if all(target.state is State.COMPLETED for target in finished) else 4


def _notify(url: str | None, document: "models.Notification") -> None:
    """Send a notification; a failure is a warning."""
    from kubectl_sky.actions import notify

    problem = notify.send(url, document) if url else ""
    if problem:
        output.warning(problem)


def _print(session: "Session", finished: "Sequence[Target]", form: str | None) -> None:
    from kubectl_sky.actions import find

    if form == "name":
        output.names(tasks.name(target) for target in finished)
    elif form:
        task_data = [task.as_json() for target in finished for task in find.tasks_of(target)]
        pipeline_data = [
            target.as_json() for target in finished if not isinstance(target, TaskStatus)
        ]
        output.out(
            output.document(
                "TaskList",
                {"tasks": task_data} | ({"pipelines": pipeline_data} if pipeline_data else {}),
                form,
            )
        )
    else:
        for target in finished:
            output.out(tasks.line(target))
        output.notes(_verdicts(session, finished))


def _verdicts(session: "Session", finished: "Sequence[Target]") -> Iterator[str]:
    """Yield the cause of each failure, and what to do, as far as the exit code does not say it."""
    from kubectl_sky.actions import doctor

    failed = [target if isinstance(target, TaskStatus) else target.failed for target in finished]
    for task in [task for task in failed if task][:_MAX_VERDICTS]:
        cause = doctor.why_failed(session, task)
        if cause:
            yield f"task/{task.id} ({task.name}): {cause.cause(task.num_nodes)}"
            yield f"hint: {cause.then}"
