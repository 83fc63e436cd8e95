"""`kubectl sky stop`."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli import tasks as tasks_of
from kubectl_sky.cli.clean import clean
from kubectl_sky.errors import UserError

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.tasks.deletion import Remainder
    from kubectl_sky.tasks.find import Scope, Target
    from kubectl_sky.words.owners import User


@commands.command(
    "stop",
    examples=[
        "stop train",
        "stop w586rcb8 n7kqzt4m",
        "stop --all --yes",
        "stop train --wait=false",
        "stop --leftovers --older-than 7d",
    ],
)
@click.argument("references", nargs=-1, metavar="[TASK...]")
@click.option("--all", "everything", is_flag=True, help="Stop all your tasks in the namespace.")
@click.option("--leftovers", is_flag=True, help="Delete what interrupted submits left.")
@click.option(
    "--older-than",
    type=options.DURATION,
    help="With --leftovers: also tasks that finished longer ago (default: 10m, without tasks).",
)
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client"]),
    is_flag=False,
    flag_value="client",
    default="none",
    help="With --leftovers: only print what would be deleted.",
)
@options.cluster_all_namespaces
@options.all_users
@options.yes
@options.waits
@options.output("json", "yaml", "name")
def command(
    references: tuple[str, ...],
    everything: bool,
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    **flags: Any,
) -> None:
    """Stop TASKs and delete their objects, logs included.

    It ends when the pods are gone. If some are not after 30 seconds, it says what keeps them; the
    exit code is 3. With --wait=false it does not wait.
    If several tasks have a name, it asks before it stops all of them; -y means yes. On a terminal,
    it asks whether to stop your last task if no TASK is given.
    """
    older_than: timedelta | None = flags["older_than"]
    dry_run = flags["dry_run"] != "none"
    yes = flags["yes"]
    if flags["leftovers"]:
        if references or everything or form:
            raise UserError("--leftovers cannot be combined with TASK, --all or -o")
        clean(cluster, all_users, yes, older_than, dry_run, waits=flags["waits"])
        return
    if dry_run or older_than is not None:
        raise UserError("--dry-run and --older-than require --leftovers", "add --leftovers")
    from kubectl_sky.tasks import deletion, multikueue, stop

    if references and everything:
        raise UserError("TASK and --all exclude each other", "remove one of them")
    if not references and not everything and not sys.stdin.isatty():
        raise UserError("no TASK given", "name the tasks to stop, or use --all")
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    named = None if everything else references
    tasks = _choose_tasks(session, scope, named, yes)
    for text in (*stop.stop(session, tasks), *multikueue.delete_copies(session, tasks)):
        output.warning(text)
    remaining = multikueue.wait_until_gone(session, tasks) if flags["waits"] else None
    _print(tasks, remaining, form)
    if remaining:
        raise deletion.still_deleting(remaining)


def _print(
    tasks: "Sequence[TaskStatus]", remaining: "Sequence[Remainder] | None", form: str | None
) -> None:
    """Print the tasks that are gone; those that are being deleted if nobody waits for it."""
    from kubectl_sky.tasks import stop

    document = stop.describe_stopped(tasks, remaining)
    if form not in (None, "name"):
        output.out(output.data(document, form))
        return
    kept = {item.id for item in remaining or ()}
    done = "is being deleted" if remaining is None else "stopped"
    for task in tasks:
        if task.id not in kept:
            output.out(
                f"task/{task.id}" if form == "name" else f"task/{task.id} ({task.name}) {done}"
            )
    if form is None and not remaining:
        is_gone = tasks and remaining is not None
        output.note(
            f"{document.message}; pods and logs are deleted" if is_gone else document.message
        )


def _choose_tasks(
    session: "Session", scope: "Scope", references: Sequence[str] | None, yes: bool
) -> "list[TaskStatus]":
    """Return the tasks to stop, all tasks for None, and ask where it is not clear."""
    from kubectl_sky.tasks import find, submissions

    def confirm(name: str | None, matches: "Sequence[Target]") -> "Sequence[Target]":
        if name is None:
            target = submissions.last(matches)
            options.confirm(f"Stop the last task, {_describe(target, None)}?", "its id")
            return [target]
        if len(matches) > 1 and not yes:
            rows = "\n".join(f"  {_describe(target, scope.user)}" for target in matches)
            output.error(f'{len(matches)} tasks are named "{name}":\n{rows}')
            options.confirm(f"Stop all {len(matches)}?", "--yes, or use an id")
        return matches

    if references is not None:
        tasks = find.get_tasks(session, replace(scope, choose=confirm), references or [None])
        for task in tasks if sys.stdin.isatty() else ():
            output.note(f"Deleting {_describe(task, scope.user)}, with its logs")
        return tasks
    tasks = find.list_tasks(session, scope, find.Read(pods=False))
    if tasks and not yes:
        users = len({task.user for task in tasks})
        options.confirm(
            f"Stop {output.count(len(tasks), 'task')} of {output.count(users, 'user')}?"
        )
    return tasks


def _describe(target: "Target", user: "User | None") -> str:
    owner = "" if user else f' of user "{target.user}"'
    age = tasks_of.since(target.created_at)
    return output.cell(f"{tasks_of.name(target)} ({target.name}){owner}, {age} old")
