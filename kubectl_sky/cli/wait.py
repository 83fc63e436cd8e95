"""`kubectl sky wait`."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import TaskStopped, UserError
from kubectl_sky.observe.documents import TaskList
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kubectl_sky.actions.notify import Notification
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.find import Scope, Target
    from kubectl_sky.words.settings import Settings

_MAX_VERDICTS = 10  # failed tasks whose cause is looked for
_STATES = ("running", "completed", "failed", "delete")
_CONDITIONS = {  # of kubectl, of pods and Jobs
    "condition=ready": "running",
    "condition=complete": "completed",
    "condition=succeeded": "completed",
    "condition=failed": "failed",
    "complete": "completed",
    "succeeded": "completed",
    "deleted": "delete",
}


_STATUS_PATH = re.compile(r"jsonpath=\{?\.status(\.phase)?\}?=(?P<state>\w+)")


class _State(click.ParamType[str]):
    """A state to wait for, also in kubectl's form: `condition=Complete`."""

    name = "state"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the state; the error for an unknown one lists those that are possible."""
        text = str(value).lower().removesuffix("=true")
        if path := _STATUS_PATH.fullmatch(text):
            text = path["state"]
        state = _CONDITIONS.get(text, text)
        if state not in _STATES:
            self.fail(
                f'"{value}" is not supported; use {", ".join(_STATES)}, or as in kubectl'
                " condition=Ready, condition=Complete, condition=Failed, jsonpath={.status}=STATE",
                param,
                ctx,
            )
        return state

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        return [CompletionItem(state) for state in _STATES if state.startswith(incomplete)]


def _url(text: str) -> str:
    """Check the URL of --notify before the wait; its path may be a secret."""
    from kubectl_sky.actions import notify

    notify.check(text)
    return text


@commands.command(
    "wait",
    examples=[
        "wait train",
        "wait train --for=running --timeout 10m",
        "wait 'train-*' eval",
        "wait --all --timeout 2h",
        "wait PIPELINE --continue",
        "wait train --notify https://hooks.example.com/T0/B0",
    ],
)
@options.tasks
@options.cluster_all_namespaces
@options.all_users
@click.option(
    "--for",
    "state",
    type=_State(),
    metavar="STATE",
    help=f"State to wait for: {', '.join(_STATES)}, or condition=Complete as in kubectl"
    " (default: completed).",
)
@click.option("--timeout", type=options.DURATION, help="Time limit (default: none).")
@click.option(
    "--continue",
    "leads",
    is_flag=True,
    help="Act as submit does: resume each stage of a pipeline when the one before it has succeeded,"
    " cancel what is left when one fails, and stop the other nodes of a failed task.",
)
@click.option(
    "--notify",
    "url",
    metavar="URL",
    envvar="KUBECTL_SKY_NOTIFY",
    callback=options.parsed(_url),
    help="POST a JSON document to this https URL at the end (default: $KUBECTL_SKY_NOTIFY).",
)
@options.output("json", "yaml", "name")
def command(
    choice: "Choice",
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    **flags: Any,
) -> int:
    """Wait until TASKs, or all tasks of pipelines, have completed or failed.

    Without TASK, wait for your last task; TASK may be a glob in quotes.

    Exits with 0 if all have reached the state, with 4 if one has failed, and with 1 at the timeout,
    or if a task that should fail has completed. Of several tasks, it names at the end those that
    have failed.
    """
    from kubectl_sky.actions import notify
    from kubectl_sky.tasks.pipeline import wait_for_all
    from kubectl_sky.tasks.watch import Until, Wait

    state = flags["state"] or "completed"
    leads = flags["leads"]
    timeout = flags["timeout"]
    if leads and all_users:
        raise UserError(
            "--continue cannot be combined with --all-users: the owner continues a task",
            "name the owner with --user, if you act for somebody",
        )
    until = {"running": Until.RUNNING, "delete": Until.DELETED}.get(state, Until.FINISHED)
    if leads and until is not Until.FINISHED:
        raise UserError(f"--continue cannot be combined with --for={state}", "remove one of them")
    seconds = timeout.total_seconds() if timeout is not None else None
    lost_after = _preferences().lost_after if leads else None
    wait = Wait(seconds, until, leads, lost_after, lambda: _preferences().silence_limit)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    targets = _targets(session, scope, choice, state)
    if not targets and choice.is_filter:
        output.note(f"No tasks found in {options.location(session, cluster)}.")
    try:
        finished = wait_for_all(session, targets, wait, Terminal())
    except TaskStopped as error:
        _notify(flags["url"], notify.describe_stopped(error.notice))
        raise
    try:
        _print(session, finished, form, state)
    finally:  # also if stdout is a closed pipe
        _notify(flags["url"], notify.describe_finished(finished, deleted=state == "delete"))
    return max((_exit_code(target, state) for target in finished), default=0)


def _targets(session: "Session", scope: "Scope", choice: "Choice", state: str) -> "list[Target]":
    """Return what to wait for; a task that is not found is deleted."""
    from kubectl_sky.tasks import find
    from kubectl_sky.tasks.choice import find_targets

    if state != "delete" or not choice.references:
        return find_targets(session, scope, choice)
    targets = []
    for reference in choice.references:
        try:
            targets += find.get_targets(session, scope, [reference])
        except find.TaskNotFound as error:
            output.note(error.what)
    return targets


def _exit_code(target: "Target", state: str) -> int:
    if state == "delete" or target.state == state:
        return 0
    if target.state is State.FAILED:
        return 4
    return 1 if state == "failed" else 0


def _notify(url: str | None, document: "Notification") -> None:
    """Send a notification; a failure is a warning."""
    from kubectl_sky.actions import notify

    problem = notify.send(url, document) if url else ""
    if problem:
        output.warning(problem)


def _preferences() -> "Settings":
    from kubectl_sky.actions.config import preferences

    return preferences()


def _print(session: "Session", finished: "Sequence[Target]", form: str | None, state: str) -> None:
    from kubectl_sky.tasks import find

    if form == "name":
        output.names(tasks.name(target) for target in finished)
    elif form:
        whole = [item.document for item in finished if not isinstance(item, TaskStatus)]
        document = TaskList(
            tasks=[task.document for target in finished for task in find.tasks_of(target)],
            pipelines=whole or UNSET,
        )
        output.out(output.data(document, form))
    elif state == "delete":
        for target in finished:
            output.out(f"{tasks.name(target)} ({target.name}) deleted")
    else:
        for target in finished:
            output.out(tasks.line(target))
        _note_failed(session, finished)


def _note_failed(session: "Session", finished: "Sequence[Target]") -> None:
    """Note why tasks have failed; of several, also which ones."""
    from kubectl_sky.observe.rerun import advise_rerun
    from kubectl_sky.tasks import doctor

    failed = [item if isinstance(item, TaskStatus) else item.failed for item in finished]
    tasks_failed = [task for task in failed if task and task.state is State.FAILED]
    for task in tasks_failed[:_MAX_VERDICTS]:
        if cause := doctor.why_failed(session, task):
            what = cause.cause(task.num_nodes, task.title)
            output.note(f"task/{task.id} ({task.name}): {what}")
            output.note(f"hint: {cause.then}")
        if advice := advise_rerun(task):
            output.note(f"hint: {advice}")
    if len(finished) > 1 and tasks_failed:
        listed = ", ".join(f"{task.id} ({task.name})" for task in tasks_failed)
        output.note(f"{len(tasks_failed)} of {len(finished)} tasks failed: {listed}")
