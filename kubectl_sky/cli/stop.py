"""`kubectl sky stop`."""

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import UserError


@commands.command("stop", examples=["stop train", "stop --all"])
@click.argument("references", nargs=-1, metavar="[TASK...]")
@click.option("--all", "everything", is_flag=True, help="Stop all your tasks in the namespace.")
@options.cluster_all_namespaces
@options.all_users
@options.yes
@options.output("json", "yaml", "name")
def command(
    references: tuple[str, ...],
    everything: bool,
    cluster: options.ClusterFlags,
    all_users: bool,
    **flags: object,
) -> None:
    """Stop TASKs and delete their objects, logs included."""
    from kubectl_sky.actions import find, stop

    if bool(references) == everything:
        raise UserError("name the tasks to stop, or use --all")
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    tasks = (
        find.list_tasks(session, scope)
        if everything
        else find.get_tasks(session, scope, references)
    )
    if everything and tasks and not flags["yes"]:
        users = len({task.user for task in tasks})
        options.confirm(
            f"Stop {output.count(len(tasks), 'task')} of {output.count(users, 'user')}?"
        )
    for task in stop.stop(session, tasks):
        output.warning(stop.secret_warning(task))
    form = flags["form"]
    message = f"Stopped {output.count(len(tasks), 'task')}"
    if form == "name":
        output.out("\n".join(f"task/{task.id}" for task in tasks))
    elif form:
        ids = [task.id for task in tasks]
        result = {"count": len(ids), "status": "stopped", "message": message, "task_ids": ids}
        output.out(output.document("Stopped", result, str(form)))
    else:
        for task in tasks:
            output.out(f"task/{task.id} ({task.name}) stopped")
        output.note(message)
