"""`kubectl sky list`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

import click
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.errors import UserError
from kubectl_sky.observe import selection
from kubectl_sky.observe.selection import Selection
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import label_selectors

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.ownership import TaskObjects
    from kubectl_sky.tasks.find import Scope
    from kubectl_sky.tasks.watch import TaskUpdate


def _parse_selector(
    context: click.Context, option: click.Parameter, value: str
) -> Callable[[Mapping[str, str]], bool]:
    try:
        return label_selectors.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


class _ListRequest(Struct, frozen=True):
    """What to show: the selection of tasks, the format and the extra columns.

    `now` is the API server's time, and `since` how long ago tasks may have been created.
    """

    selection: Selection
    form: str | None
    columns: tuple[str, ...]
    since: timedelta | None = None
    now: datetime | None = None

    def at(self, now: datetime) -> "_ListRequest":
        """Return the request at a time of the API server."""
        if self.since is None:
            return replace(self, now=now)
        start = (now - self.since).strftime("%Y-%m-%dT%H:%M:%SZ")
        return replace(self, selection=replace(self.selection, since=start), now=now)

    def format(
        self,
        statuses: Sequence[TaskStatus],
        owned: Sequence["TaskObjects"],
        everything: Sequence[TaskStatus] = (),
    ) -> str:
        """Format the selected tasks, in the wide format with the GPU-hours of their objects.

        `everything` also has the tasks of their pipelines that are not selected. If there are none,
        text formats give an empty string; JSON and YAML give an empty list.
        """
        selected = self.selection.of(statuses)
        if selected or self.form not in (None, "wide", "name"):
            hours = self._gpu_hours(owned)
            return tasks.listing(selected, self.form, self.columns, hours, everything or statuses)
        return ""

    def _gpu_hours(self, owned: Sequence["TaskObjects"]) -> Mapping[tuple[str, str], float]:
        """Return the GPU-hours of tasks if the format shows them."""
        if self.form != "wide":
            return {}
        from kubectl_sky.gpus import hours

        assert self.now
        return hours.of_tasks(owned, self.now)


@commands.command(
    "list",
    examples=[
        "list",
        "list --status failed --since 1h",
        "list -l team=vision --show-labels",
        "list -A --all-users -o wide",
    ],
)
@options.cluster_all_namespaces
@options.all_users
@options.output(*tasks.FORMATS)
@options.no_headers
@click.option(
    "-l",
    "--selector",
    "labels",
    default="",
    callback=_parse_selector,
    metavar="SELECTOR",
    help="Show only tasks with these labels: team=a, team!=b, 'team in (a,b)'.",
)
@click.option("--show-labels", is_flag=True, help="Show the labels as the last column.")
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
    default="age",
    show_default=True,
    help="Sort order.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many tasks.")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until Ctrl-C.")
@click.option("--all-contexts", is_flag=True, help="List tasks of every context of the kubeconfig.")
def command(
    cluster: options.ClusterFlags, all_users: bool, form: str | None, **flags: object
) -> int:
    """List your tasks, newest first.

    With -o wide, GPU-HOURS are those of tasks that request GPUs; see `usage`.
    """
    from kubectl_sky.tasks import evidence, find, pending

    request = _list_request(cluster, all_users, form, flags)
    if flags["all_contexts"]:
        return _list_all_contexts(cluster, all_users, request)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    if flags["watch"]:
        _watch(session, scope, request)
        return 0
    owned = find.list_objects(session, scope)
    request = request.at(session.now())
    statuses = evidence.fold(session, owned)
    selected = pending.explain_all(session, scope.namespace, request.selection.of(statuses))
    text = request.format(selected, owned, statuses)
    if text:
        output.out(text)
    if selected:
        output.notes(tasks.incomplete(selected) if form in (None, "wide") else ())
    elif form != "name":
        location = "any namespace" if cluster.all_namespaces else f"namespace {session.namespace}"
        output.note(f"No tasks found in {location}.")
    return 0


def _list_request(
    cluster: options.ClusterFlags, all_users: bool, form: str | None, flags: dict[str, object]
) -> _ListRequest:
    if flags["all_contexts"] and (flags["watch"] or cluster.connection["context"]):
        raise UserError(
            f"--{'watch' if flags['watch'] else 'context'} cannot be combined with --all-contexts"
        )
    since, limit, states = flags["since"], flags["limit"], flags["states"]
    assert limit is None or isinstance(limit, int)
    assert isinstance(states, tuple)
    columns = (
        *(["NAMESPACE"] if cluster.all_namespaces or flags["details"] else []),
        *(["USER"] if all_users or flags["details"] else []),
        *(["JOBS"] if flags["details"] else []),
        *(["LABELS"] if flags["show_labels"] else []),
    )
    filters = Selection(
        states=tuple(str(state).lower() for state in states),
        labels=cast("Callable[[Mapping[str, str]], bool]", flags["labels"]),
        order=str(flags["order"]),
        limit=limit,
    )
    return _ListRequest(filters, form, columns, since if isinstance(since, timedelta) else None)


def _watch(session: "Session", scope: "Scope", request: _ListRequest) -> None:
    """Show the tasks again after each change, and on a terminal their ages every second."""
    from kubectl_sky.tasks import pending

    screen = output.LiveText(request.form)
    latest: TaskUpdate | None = None
    for update in pending.watch_explained(session, scope):
        latest = update or latest
        if latest and (update or screen.is_outdated):
            text = request.at(session.now()).format(latest.tasks, latest.owned)
            screen.show(text or "No tasks found.")


def _list_all_contexts(
    cluster: options.ClusterFlags, all_users: bool, request: _ListRequest
) -> int:
    """List the tasks of each context; report contexts without an answer and return 3."""
    from kubectl_sky.submitting import contexts

    query = contexts.TaskQuery(cluster.user, all_users, cluster.all_namespaces)
    answers = contexts.list_tasks(cluster.flags(), query)
    shown = [(answer, request.at(answer.now)) for answer in answers if answer.now]
    if request.form in (None, "wide", "name"):
        for answer, current in shown:
            text = current.format(answer.tasks, answer.owned)
            heading = "" if request.form == "name" else f"{answer.context}:\n"
            if text:
                output.out(f"{heading}{text}")
        if request.form != "name" and not any(answer.tasks or answer.error for answer in answers):
            output.note("No tasks found in any context.")
    else:
        rows = [
            task.as_json() | {"context": answer.context}
            for answer, current in shown
            for task in current.selection.of(answer.tasks)
        ]
        output.out(output.document("TaskList", {"tasks": rows}, request.form))
    failed = [answer for answer in answers if answer.error]
    for answer in failed:
        output.error(f"error: context {answer.context}: {answer.error}")
    return 3 if failed else 0
