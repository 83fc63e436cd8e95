"""`kubectl sky logs`."""

import re
import warnings
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.cli.terminal import Printer, RankDifferences, Terminal
from kubectl_sky.errors import UserError
from kubectl_sky.observe.logs import Form, LogFormat, Template

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.find import Scope
    from kubectl_sky.tasks.logs import LogRequest


def ranks(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[int]:
    """Parse `--rank 0,3` and `--rank 0-7`."""
    numbers: list[int] = []
    for item in (item.strip() for text in value for item in text.split(",")):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", item)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            message = f'"{item}": ranks are numbers and ranges, such as 0, 0,3 or 0-7'
            raise click.BadParameter(message, context, param)
        numbers += range(first, last + 1)
    return numbers


def pattern(
    context: click.Context, param: click.Parameter, value: str | None
) -> re.Pattern[str] | None:
    try:
        with warnings.catch_warnings(action="error"):  # of [[:alpha:]], which is not supported
            return re.compile(value) if value is not None else None
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        message = f"invalid regular expression: {error}"
        raise click.BadParameter(message, context, param) from None


def _patterns(
    context: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[re.Pattern[str] | None, ...]:
    return tuple(pattern(context, param, value) for value in values)


_TIME_FORM = "use RFC 3339: 2026-11-21T04:47:04Z"


def _time(text: str) -> str:
    """Check a time of --since-time, with a zone as in kubectl."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f'"{text}" is not a time; {_TIME_FORM}') from None
    if moment.tzinfo is None:
        raise ValueError(f'"{text}" has no time zone; {_TIME_FORM}')
    return text


@commands.command(
    "logs",
    examples=[
        "logs train -f",
        "logs 'train-*' -f --exclude DEBUG",
        "logs train --rank 0,4-7 --grep loss",
        "logs train --tail 100 -o json",
        "logs train --diff-ranks",
        "logs train -f --all-containers",
        "logs train -t --template {time}:{rank}:{text}",
    ],
)
@options.tasks
@click.option(
    "-f",
    "--follow",
    "following",
    is_flag=True,
    help="Follow the logs until every node has finished.",
)
@click.option("--tail", type=click.IntRange(-1), help="Last lines of each node; -1: all.")
@click.option("--since", type=options.DURATION, help="Show only lines of the last 90s, 5m, 2h.")
@click.option(
    "--since-time",
    callback=options.parsed(_time),
    metavar="TIME",
    help="Show only lines after this time: 2026-11-21T04:47:04Z.",
)
@click.option(
    "--limit-bytes", type=click.IntRange(min=1), help="Show at most this many bytes of each node."
)
@click.option("--timestamps", is_flag=True, help="Show the time of each line.")
@click.option(
    "-t",
    "local",
    is_flag=True,
    help="Show short local times: 11-21 04:47:04.",
)
@click.option(
    "--template",
    callback=options.parsed(Template),
    metavar="TEMPLATE",
    help="Print each line in this form; the fields are {task}, {rank}, {pod}, {container},"
    " {time}, {text}.",
)
@click.option("-p", "--previous", is_flag=True, help="Show the log before the last restart.")
@click.option(
    "--rank",
    multiple=True,
    callback=ranks,
    metavar="R,...",
    help="Show only these ranks: 0,3, 0-7.",
)
@click.option(
    "--diff-ranks", is_flag=True, help="Show only lines that are not the same on all ranks."
)
@click.option("--by-node", is_flag=True, help="Print one node after the other, not by time.")
@click.option("-c", "--container", help="Container of the pods (default: the task's).")
@click.option(
    "--all-containers",
    is_flag=True,
    help="Show all containers of the pods, also init containers and sidecars.",
)
@click.option("--grep", callback=pattern, metavar="REGEX", help="Show only lines that match.")
@click.option(
    "--exclude",
    multiple=True,
    callback=_patterns,
    metavar="REGEX",
    help="Leave out lines that match; repeatable.",
)
@click.option(
    "--highlight",
    multiple=True,
    callback=_patterns,
    metavar="REGEX",
    help="Colour what matches in the lines; repeatable.",
)
@click.option("--prefix", is_flag=True, help="Begin each line with its node, also of a single one.")
@options.output(*(form.value for form in LogFormat), paths=False)
@click.option("--output-dir", "folder", metavar="DIR", help="Write one file per node, ID-NODE.log.")
@click.option(
    "--max-log-requests",
    "most",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of logs to read at a time.",
)
@click.option(
    "--wait-timeout",
    type=options.DURATION,
    default="5m",
    show_default=True,
    help="With -f: time limit for the first node to start.",
)
@options.yes
@options.cluster_all_namespaces
@options.all_users
def command(
    choice: "Choice",
    following: bool,
    cluster: options.ClusterFlags,
    all_users: bool,
    **flags: Any,
) -> int:
    """Print the logs of TASKs (your last task): `node-1 | line` for several nodes, by time.

    The lines of several tasks begin with their names. TASK may be a glob in quotes, or a pipeline:
    its stages are printed in order, with headings on stderr.

    The exit code is that of the tasks: 4 if one failed.

    If the task wrote its logs to a volume too (config.kubectl_sky.logs), those of deleted pods and
    tasks are read there, in a running pod of yours that mounts it; --yes starts one.
    """
    from kubectl_sky.cli import kept_logs
    from kubectl_sky.tasks.find import TaskNotFound, tasks_of
    from kubectl_sky.tasks.follow import follow, show

    _check(following, flags)
    form = Form(
        output=LogFormat(flags["form"] or LogFormat.TEXT),
        stamped=_with_timestamps(flags),
        local=flags["local"],
        template=flags["template"],
        grep=flags["grep"],
        exclude=flags["exclude"],
        highlight=flags["highlight"],
    )
    printer = Printer(form, folder=flags["folder"], limit=flags["limit_bytes"])
    ui = Terminal(RankDifferences(printer, form.stamped) if flags["diff_ranks"] else printer)
    request = _request(following, flags)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    if choice.may_be_several:
        _print_several(session, scope, choice, request, ui)
        return 0
    reader = kept_logs.Reader(session, cluster, scope, flags["yes"])
    plain_form = replace(form, stamped=False, local=False)
    plain = Terminal(Printer(plain_form, folder=flags["folder"], limit=flags["limit_bytes"]))
    try:
        session, target = tasks.locate_or_show_evidence(session, scope, choice)
    except TaskNotFound:
        reference = next(iter(choice.references), None)
        if not reader.show_deleted(reference, request, plain):
            raise
        return 0
    if following:
        follow(session, target, request, ui)
    else:
        with reader.adding_lost(tasks_of(target), request, plain), ui.printing_rest():
            show(session, target, request, ui)
    return 0


def _print_several(
    session: "Session", scope: "Scope", choice: "Choice", request: "LogRequest", ui: Terminal
) -> None:
    """Print the logs of several tasks, with their names before the lines."""
    from kubectl_sky.tasks.choice import find_targets
    from kubectl_sky.tasks.find import tasks_of
    from kubectl_sky.tasks.follow import follow_tasks, show_tasks

    chosen = [task for target in find_targets(session, scope, choice) for task in tasks_of(target)]
    if not chosen:
        output.note("No tasks found.")
    elif request.options.follow:
        follow_tasks(session, chosen, request, ui)
    else:
        with ui.printing_rest():
            show_tasks(session, chosen, request, ui)


def _check(following: bool, flags: Mapping[str, Any]) -> None:
    if flags["local"] and (flags["timestamps"] or flags["form"] == LogFormat.JSON):
        raise UserError("-t cannot be combined with --timestamps or -o json", "choose one of them")
    if flags["container"] and flags["all_containers"]:
        raise UserError("-c cannot be combined with --all-containers", "choose one of them")
    if flags["since"] and flags["since_time"]:
        raise UserError("--since cannot be combined with --since-time", "choose one of them")
    if flags["template"] and flags["form"]:
        raise UserError("--template cannot be combined with -o", "choose one of them")
    if flags["diff_ranks"] and following:
        raise UserError("--diff-ranks compares whole logs", "leave out -f")


def _with_timestamps(flags: Mapping[str, Any]) -> bool:
    template: Template | None = flags["template"]
    return (
        bool(flags["timestamps"] or flags["local"])
        or flags["form"] == LogFormat.JSON
        or bool(template and template.has_time)
    )


def _request(following: bool, flags: Mapping[str, Any]) -> "LogRequest":
    from kubectl_sky.cluster.streams import MAX_STREAMS, LogOptions
    from kubectl_sky.tasks import logs
    from kubectl_sky.words import names

    container = "" if flags["all_containers"] else flags["container"] or names.CONTAINER
    since = flags["since"]
    timeout = flags["wait_timeout"]
    assert isinstance(timeout, timedelta)
    since_seconds = max(int(since.total_seconds()), 1) if since else None  # 0: all
    return logs.LogRequest(
        LogOptions(
            follow=following,
            tail=flags["tail"],
            since_seconds=since_seconds,
            since_time=flags["since_time"] or "",
            timestamps=_with_timestamps(flags),
            previous=bool(flags["previous"]),
        ),
        ranks=flags["rank"],
        start_timeout=timeout.total_seconds(),
        container=container,
        max_streams=flags["most"] or MAX_STREAMS,
        has_prefixes=flags["prefix"],
        by_node=flags["by_node"] or bool(flags["folder"]),
    )
