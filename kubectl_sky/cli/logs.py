"""`kubectl sky logs`, and what `submit` shows after sending."""

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from kubectl_sky.cli import options, output
from kubectl_sky.errors import Interrupted, TaskFailed
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.actions.logs import Request
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.pipelines import PipelineStatus


def write(block: bytes) -> None:
    """Bytes as they came, at once: a reader of a pipe wants them too."""
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def follow(session: "Session", task: TaskStatus, request: "Request") -> int:
    """Follow a task to its end and return the exit code; Ctrl-C leaves the task running."""
    from kubectl_sky.actions import logs

    try:
        ended = logs.follow(session, task, request, write, output.note)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; task {task.id} goes on",
            f"`kubectl sky logs {task.id} -f` follows it, `kubectl sky stop {task.id}` stops it",
        ) from None
    return outcome(ended)


def outcome(task: TaskStatus) -> int:
    """Return the exit code of a task that may have ended. Raises TaskFailed when it failed."""
    if task.state is not State.FAILED:
        return 0
    raise TaskFailed(f"task {task.id} ({task.name}) failed: {reason(task)}")


def reason(task: TaskStatus) -> str:
    """Say how a task failed, with its last words."""
    lines = task.first_failure.message.splitlines()[-5:] if task.first_failure else []
    last = "; its last lines:" + "".join(f"\n  {line}" for line in lines) if lines else ""
    return f"{task.note}{last}"


def ranks(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[int]:
    """Read `--rank 0,3`."""
    items = [item for text in value for item in text.split(",")]
    if not all(item.strip().isdecimal() for item in items):
        raise click.BadParameter("ranks are numbers, such as 0 or 0,3", context, param)
    return [int(item) for item in items]


@click.command("logs")
@click.argument("task")
@click.option("-f", "--follow", "following", is_flag=True, help="Go on until every node has ended.")
@click.option("--tail", type=int, help="Only the last lines of each node; -1 is all.")
@click.option("--since", type=options.DURATION, help="Only lines of the last 90s, 5m, 2h …")
@click.option("--timestamps", is_flag=True, help="Write the time of each line.")
@click.option("-p", "--previous", is_flag=True, help="The log of the container before a restart.")
@click.option("--rank", multiple=True, callback=ranks, metavar="R,...", help="Only these nodes.")
@click.option(
    "--wait-timeout",
    type=options.DURATION,
    default="5m",
    show_default=True,
    help="With -f: how long the first node may take to start.",
)
@options.where_all
@options.all_users
def command(
    task: str,
    following: bool,
    where: options.Where,
    all_users: bool,
    **flags: Any,  # noqa: ANN401 -- click's own types
) -> int:
    """Print the logs of TASK: `node-1 | line` of several nodes, plain lines of one.

    TASK may be a pipeline: its stages follow each other, under headings on stderr.

    With -f it exits as the task does: with 4 when it failed.
    """
    from kubectl_sky.actions import find, logs
    from kubectl_sky.cluster.streams import LogOptions

    since, timeout = flags["since"], flags["wait_timeout"]
    assert isinstance(timeout, timedelta)
    request = logs.Request(
        LogOptions(
            follow=following,
            tail=flags["tail"],
            since_seconds=max(int(since.total_seconds()), 1)
            if isinstance(since, timedelta)
            else None,
            timestamps=bool(flags["timestamps"]),
            previous=bool(flags["previous"]),
        ),
        ranks=flags["rank"],
        patience=timeout.total_seconds(),
    )
    session = where.session()
    found = find.one(session, options.scope(session, where, all_users), task)
    if not isinstance(found, TaskStatus):
        return _together(session, found, request)
    if following:
        return follow(session, found, request)
    logs.show(session, found, request, write, output.note)
    return outcome(found)


def _together(session: "Session", pipeline: "PipelineStatus", request: "Request") -> int:
    """Print the logs of a pipeline's tasks, stage after stage; whoever leads it is another."""
    from kubectl_sky.actions import logs
    from kubectl_sky.cli import pipelines

    if request.options.follow:
        return pipelines.follow(session, pipeline, request, decides=False)
    for task in pipeline.tasks:
        output.note(pipeline.heading(task))
        logs.show(session, task, request, write, output.note)
    return pipelines.outcome(pipeline)
