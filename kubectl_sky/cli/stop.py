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
from kubectl_sky.observe.documents import TaskList

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.deletion import Remainder
    from kubectl_sky.tasks.find import Scope, Target
    from kubectl_sky.words.owners import User

_MAX_LISTED = 20  # tasks that are named before the question


@commands.command(
    "stop",
    examples=[
        "stop train",
        "stop w586rcb8 n7kqzt4m",
        "stop 'train-*' --dry-run",
        "stop -l team=vision --yes",
        "stop train --wait=false",
        "stop --leftovers --older-than 7d",
    ],
)
@options.tasks
@click.option("--leftovers", is_flag=True, help="Delete what interrupted submits left.")
@click.option(
    "--older-than",
    type=options.DURATION,
    help="With --leftovers: also tasks that finished longer ago (default: 10m, without tasks).",
)
@options.dry_run_delete
@options.cluster_all_namespaces
@options.all_users
@options.yes
@options.waits
@options.output("json", "yaml", "name")
def command(
    choice: "Choice",
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    **flags: Any,
) -> None:
    """Stop TASKs and delete their objects, logs included.

    It ends when the pods are gone. If some are not after 30 seconds, it says what keeps them; the
    exit code is 3. With --wait=false it does not wait.
    It asks before it stops several tasks of one name, of a glob such as 'train-*', of -l or of
    --all; -y means yes. On a terminal, it asks whether to stop your last task without TASK.
    """
    older_than: timedelta | None = flags["older_than"]
    dry_run = flags["dry_run"] != "none"
    yes = flags["yes"]
    is_given = bool(choice.references) or choice.is_filter
    if flags["leftovers"]:
        if is_given or form:
            raise UserError("--leftovers cannot be combined with TASK, -l, --all or -o")
        clean(cluster, all_users, yes, older_than, dry_run, waits=flags["waits"])
        return
    if older_than is not None:
        raise UserError("--older-than requires --leftovers", "add --leftovers")
    if not is_given and not sys.stdin.isatty():
        raise UserError("no TASK given", "name the tasks to stop, or use --all")
    from kubectl_sky.tasks import deletion, multikueue, stop

    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    tasks = _choose_tasks(session, scope, choice, yes or dry_run)
    if dry_run:
        _print_dry_run(tasks, form)
        return
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


def _print_dry_run(tasks: "Sequence[TaskStatus]", form: str | None) -> None:
    documents = [task.document for task in tasks]
    ids = [f"task/{task.id}" for task in tasks]
    if not output.print_document(form, TaskList(tasks=documents), ids):
        for task in tasks:
            output.out(f"task/{task.id} ({task.name}) stopped (dry run)")


def _choose_tasks(
    session: "Session", scope: "Scope", choice: "Choice", yes: bool
) -> "list[TaskStatus]":
    """Return the tasks to stop, and ask where it is not clear."""
    from kubectl_sky.tasks import find, submissions
    from kubectl_sky.tasks.choice import find_targets

    def confirm(name: str | None, matches: "Sequence[Target]") -> "Sequence[Target]":
        if name is None:
            target = submissions.last(matches)
            if not yes:
                options.confirm(f"Stop the last task, {_describe(target, None)}?", "its id")
            return [target]
        if len(matches) > 1 and not yes:
            _confirm_several(matches, f'{len(matches)} tasks are named "{name}"', scope.user)
        return matches

    read = find.Read(pods=False)
    targets = find_targets(session, replace(scope, choose=confirm), choice, read)
    tasks = [task for target in targets for task in find.tasks_of(target)]
    if choice.is_broad and tasks and not yes:
        users = len({task.user for task in tasks})
        title = f"{output.count(len(tasks), 'task')} of {output.count(users, 'user')}"
        _confirm_several(tasks, title, scope.user)
    elif sys.stdin.isatty() and not choice.is_broad:
        for task in tasks:
            output.note(f"Deleting {_describe(task, scope.user)}, with its logs")
    return tasks


def _confirm_several(targets: "Sequence[Target]", title: str, user: "User | None") -> None:
    rows = "\n".join(f"  {_describe(target, user)}" for target in targets[:_MAX_LISTED])
    more = len(targets) - _MAX_LISTED
    end = f"\n  … and {more} more" if more > 0 else ""
    output.error(f"{title}:\n{rows}{end}")
    options.confirm(f"Stop {output.count(len(targets), 'task')}?", "--yes, or use an id")


def _describe(target: "Target", user: "User | None") -> str:
    owner = "" if user else f' of user "{target.user}"'
    age = tasks_of.since(target.created_at)
    return output.cell(f"{tasks_of.name(target)} ({target.name}){owner}, {age} old")
