"""`kubectl sky list`."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import click
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.errors import Forbidden, UserError
from kubectl_sky.observe import selection
from kubectl_sky.observe.documents import TaskList
from kubectl_sky.observe.selection import Selection
from kubectl_sky.observe.titles import list_differing

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.tasks.find import Scope
    from kubectl_sky.tasks.list import Listing


_NOT_IN_SEVERAL = ("watch", "deleted", "all_contexts")  # what is of one namespace, or of all


_MAX_VARIABLES = 4  # that get columns by themselves


class _ListRequest(Struct, frozen=True):
    """What to show: the selection of tasks, the format and the extra columns."""

    selection: Selection
    form: str | None
    columns: tuple[str, ...]
    variables: tuple[str, ...] | None  # that have columns; None: those in which tasks differ
    by_owner: bool  # whether tables have the tasks of each owner together

    def format(self, listing: "Listing") -> str:
        """Format the selected tasks, in the wide format with the GPU-hours of their objects.

        If there are none, text formats give an empty string; JSON and YAML give an empty list.
        """
        if not listing.tasks and self.form in (None, "wide", "name"):
            return ""
        hours: Mapping[tuple[str, str], float] = {}
        if self.form == "wide":
            from kubectl_sky.gpus.hours import of_tasks

            hours = of_tasks(listing.owned, listing.now)
        variables = self.variables
        if variables is None:
            variables = tuple(list_differing(listing.tasks)[:_MAX_VARIABLES])
        listed = listing.tasks
        if self.by_owner and self.form in (None, "wide"):
            listed = sorted(listed, key=lambda task: task.user)
        return tasks.listing(listed, self.form, self.columns, variables, hours, listing.everything)


@commands.command(
    "list",
    examples=[
        "list",
        "list --status failed --since 1h",
        "list -l team=vision --show-labels",
        "list --env-columns LR,SEED",
        "list -A --all-users -o wide",
        "list --my-namespaces",
        "list --deleted --status failed --since 7d",
    ],
)
@options.cluster_all_namespaces
@options.all_users
@options.output(*tasks.FORMATS)
@options.no_headers
@options.labels
@click.option("--show-labels", is_flag=True, help="Show the labels as the last column.")
@click.option(
    "--env-columns",
    "variables",
    metavar="NAME,...",
    help="Show these variables of the task files as columns (default: those in which tasks of one"
    " name differ, if they are few).",
)
@click.option("--details", is_flag=True, help="Show namespaces, users and Jobs as well.")
@click.option(
    "--status",
    "states",
    multiple=True,
    type=click.Choice(selection.states(), case_sensitive=False),
    metavar="STATE",
    help=f"Show only tasks in this state; repeatable: {', '.join(selection.states())}.",
)
@click.option(
    "--since", type=options.DURATION, help="Show only tasks created within this time: 90s, 5m, 2h."
)
@click.option(
    "--sort-by",
    "order",
    type=click.Choice(list(selection.ORDERS)),
    help="Sort order (default: age; tables of --all-users have those of each owner together).",
)
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many tasks.")
@click.option(
    "--deleted",
    is_flag=True,
    help="List finished tasks whose objects were deleted, if the tasks controller keeps a history.",
)
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until Ctrl-C.")
@click.option(
    "--my-namespaces",
    is_flag=True,
    help="List tasks of the current namespace, and of those that `users add` gave you and your"
    " groups.",
)
@click.option("--all-contexts", is_flag=True, help="List tasks of every context of the kubeconfig.")
def command(
    cluster: options.ClusterFlags, all_users: bool, form: str | None, **flags: object
) -> int:
    """List your tasks, newest first.

    With -o wide, GPU-HOURS are those of tasks that request GPUs; see `usage`.
    """
    from kubectl_sky.tasks.list import select
    from kubectl_sky.tasks.pending import watch_explained

    request = _list_request(cluster, all_users, form, flags)
    if flags["all_contexts"]:
        return _list_all_contexts(cluster, all_users, request)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    if flags["watch"]:  # after each change, and on a terminal for the ages every second
        screen = output.LiveText(form)
        latest = None
        for update in watch_explained(session, scope):
            latest = update or latest
            if latest and (update or screen.is_outdated):
                shown = select(latest, request.selection, session.now())
                screen.show(request.format(shown) or "No tasks found.")
        return 0
    listing = _read(session, scope, request, flags)
    text = request.format(listing)
    if text:
        output.out(text)
    if listing.tasks:
        output.notes(tasks.incomplete(listing.tasks) if form in (None, "wide") else ())
    elif form != "name":
        _note_none(session, cluster, flags)
    output.notes(listing.notes)
    return 0


def _read(
    session: "Session", scope: "Scope", request: _ListRequest, flags: Mapping[str, object]
) -> "Listing":
    from kubectl_sky.actions import namespaces
    from kubectl_sky.tasks.list import list_in_namespaces, list_tasks

    if flags["my_namespaces"]:
        own = namespaces.list_own(session)
        return list_in_namespaces(session, scope, own, request.selection, _silent_after)
    deleted = bool(flags["deleted"])
    try:
        return list_tasks(session, scope, request.selection, _silent_after, deleted=deleted)
    except Forbidden as error:
        if scope.namespace:
            raise
        hint = "run `kubectl sky list --my-namespaces` for those that are yours"
        raise Forbidden(error.what, hint) from None


def _note_none(
    session: "Session", cluster: options.ClusterFlags, flags: Mapping[str, object]
) -> None:
    from kubectl_sky.cluster import access

    if cluster.namespace and not cluster.all_namespaces:
        access.check_namespace(session, cluster.namespace, "an argument of `status`")
    location = options.location(session, cluster)
    if flags["my_namespaces"]:
        location = "your namespaces"
    if flags["deleted"]:
        output.note(f"No deleted tasks found in {location}.")
        output.note("The tasks controller keeps them if its settings have `history: 1000`.")
    else:
        output.note(f"No tasks found in {location}.")


def _silent_after() -> timedelta:
    from kubectl_sky.actions.config import preferences

    return preferences().silence_limit


def _list_request(
    cluster: options.ClusterFlags, all_users: bool, form: str | None, flags: dict[str, object]
) -> _ListRequest:
    if flags["all_contexts"] and (flags["watch"] or cluster.connection["context"]):
        raise UserError(
            f"--{'watch' if flags['watch'] else 'context'} cannot be combined with --all-contexts"
        )
    if flags["deleted"] and (flags["all_contexts"] or flags["watch"]):
        raise UserError("--deleted cannot be combined with --watch or --all-contexts")
    others = {
        "--namespace": bool(cluster.namespace),
        "--all-namespaces": cluster.all_namespaces,
        **{f"--{name.replace('_', '-')}": flags[name] for name in _NOT_IN_SEVERAL},
    }
    if flags["my_namespaces"] and any(others.values()):
        other = next(name for name, is_given in others.items() if is_given)
        raise UserError(f"--my-namespaces cannot be combined with {other}")

    since = flags["since"] if isinstance(flags["since"], timedelta) else None
    limit = flags["limit"]
    states = flags["states"]
    assert limit is None or isinstance(limit, int)
    assert isinstance(states, tuple)

    more_columns = {
        "NAMESPACE": cluster.all_namespaces or flags["my_namespaces"] or flags["details"],
        "USER": all_users or flags["details"],
        "JOBS": flags["details"],
        "LABELS": flags["show_labels"],
    }
    columns = tuple(name for name, is_shown in more_columns.items() if is_shown)

    filters = Selection(
        states=tuple(str(state).lower() for state in states),
        labels=cast("Callable[[Mapping[str, str]], bool] | None", flags["labels"]),
        since=since,
        order=str(flags["order"] or "age"),
        limit=limit,
    )
    given = flags["variables"]
    variables = None if given is None else tuple(filter(None, str(given).split(",")))
    by_owner = all_users and not flags["order"]
    return _ListRequest(filters, form, columns, variables, by_owner)


def _list_all_contexts(
    cluster: options.ClusterFlags, all_users: bool, request: _ListRequest
) -> int:
    """List the tasks of each context; report contexts without an answer and return 3."""
    from kubectl_sky.submitting import contexts

    answers = contexts.list_tasks(
        cluster.flags(), cluster.user, request.selection, all_users, cluster.all_namespaces
    )
    listings = [(answer.context, answer.listing) for answer in answers if answer.listing]
    if request.form in (None, "wide", "name"):
        for context, listing in listings:
            heading = "" if request.form == "name" else f"{context}:\n"
            if text := request.format(listing):
                output.out(f"{heading}{text}")
        has_any = any(listing.everything for _, listing in listings)
        if request.form != "name" and not has_any and len(listings) == len(answers):
            output.note("No tasks found in any context.")
    else:
        rows = [
            replace(task.document, context=context)
            for context, listing in listings
            for task in listing.tasks
        ]
        output.out(output.data(TaskList(tasks=rows), request.form))
    failed = [answer for answer in answers if answer.error]
    for answer in failed:
        output.error(f"error: context {answer.context}: {answer.error}")
    return 3 if failed else 0
