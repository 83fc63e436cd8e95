"""`kubectl sky wait`."""

from datetime import timedelta

import click

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.cli.ui import Terminal
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus


@commands.command(
    "wait", examples=["wait train", "wait train --timeout 1h", "wait PIPELINE --continue"]
)
@click.argument("references", nargs=-1, metavar="[TASK...]")
@options.cluster_all_namespaces
@options.all_users
@click.option("--timeout", type=options.DURATION, help="Time limit (default: none).")
@click.option(
    "--continue",
    "leads",
    is_flag=True,
    help="Release each stage of a pipeline when the one before it has succeeded, and cancel what"
    " is left when one fails, as submit does while it follows.",
)
@options.output("json", "yaml", "name")
def command(
    references: tuple[str, ...],
    cluster: options.ClusterFlags,
    all_users: bool,
    timeout: timedelta | None,
    leads: bool,
    form: str | None,
) -> int:
    """Wait until TASKs, or all tasks of pipelines, have completed or failed.

    Without TASK, wait for your last task.

    Exits with 0 if all have completed, with 4 if one has failed, and with 1 at the timeout.

    When a node of a task has failed for good, its other nodes are stopped: by the cluster, or by
    this command with the backends jobs and volcano.

    With --continue, it resumes pipelines that were submitted with --detach or interrupted.
    """
    from kubectl_sky.actions import find
    from kubectl_sky.actions.pipeline import wait_for_all

    session = cluster.session()
    targets = find.get_targets(
        session, options.scope(session, cluster, all_users), references or [None]
    )
    limit = timeout.total_seconds() if timeout else None
    finished = wait_for_all(session, targets, limit, Terminal(), leads)
    if form == "name":
        output.out("\n".join(tasks.name(target) for target in finished))
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
    return 0 if all(target.state is State.COMPLETED for target in finished) else 4
