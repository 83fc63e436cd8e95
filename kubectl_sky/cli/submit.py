"""`kubectl sky submit`."""

import os
import sys
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.cli import commands, options, output, pipelines
from kubectl_sky.cli.logs import follow
from kubectl_sky.cli.printing import Printer
from kubectl_sky.observe.status import TaskStatus

if TYPE_CHECKING:
    from kubectl_sky.actions.submit import Prepared
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.render.manifests import Manifests


@commands.command(
    "submit",
    examples=[
        "submit task.yaml",
        "submit task.yaml --env EPOCHS=10 --gpus A100:8 --num-nodes 2",
        "submit task.yaml --detach --id train001",
        "submit task.yaml --dry-run=server",
    ],
)
@click.argument("file")
@click.option("-d", "--detach", is_flag=True, help="Return at once, without following the logs.")
@options.task
@options.dry_run
@click.option("--show-secrets", is_flag=True, help="With --dry-run -o yaml: print secret values.")
@click.option(
    "--wait-timeout",
    type=options.DURATION,
    help="Time limit for the first node to start (default: provision_timeout, then 5m).",
)
@options.strict
@options.where
@options.output("json", "yaml", "name", paths=False)
def command(
    file: str, overrides: Overrides, where: options.Where, form: str | None, **flags: object
) -> int:
    """Run the task in FILE (`-` is standard input) and follow its logs.

    Prints the task's id at once. The exit code is that of the task: 4 if it failed. Ctrl-C leaves
    the task running. With -o, it only prints what was submitted.

    When a node has failed for good, the task's other nodes are stopped: by the cluster, or by this
    command while it follows, with the backends jobs and volcano.

    Several tasks in one file are a pipeline: each task runs when the one before it has succeeded.
    If one fails, the remaining tasks are cancelled. All tasks are in the cluster from the start,
    the later ones suspended, and this command resumes them. With --detach or after Ctrl-C they stay
    suspended until `kubectl sky wait ID --continue`, or the same submit with --id ID, resumes them.

    With `execution: parallel` in the header, the tasks are a group: they run at the same time and
    find each other as TASK-RANK.$SKYPILOT_JOBGROUP_NAME. When the `primary_tasks` have finished,
    this command stops the other tasks.
    """
    from kubectl_sky.actions import context, submit
    from kubectl_sky.actions.draft import draft
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.render.manifests import redacted

    task_file = draft(
        file, overrides, os.environ, sys.stdin.buffer, bool(flags["strict"]), output.transfer
    )
    output.problems(task_file.warnings)
    output.notes(task_file.review.reported)
    task_file, connection = context.choose(task_file, where.flags())
    session = Session.connect(connection)
    prepared = submit.prepare(session, task_file, where.user)
    for note in prepared.notes:
        output.note(note)
    if flags["dry_run"] == "none":
        timeout = flags["wait_timeout"]
        start_timeout = (
            timeout.total_seconds() if isinstance(timeout, timedelta) else task_file.patience
        )
        return _submit(session, prepared, form, bool(flags["detach"]), start_timeout)
    if flags["dry_run"] == "server":
        submit.send(session, prepared, dry_run=True)
    manifests = prepared.manifests
    if not flags["show_secrets"]:
        manifests = task_file.manifests([redacted(plan) for plan in prepared.plans])
    output.out(_listed(manifests, form, options.DRY_RUNS[str(flags["dry_run"])]))
    return 0


def _submit(
    session: "Session",
    prepared: "Prepared",
    form: str | None,
    detach: bool,
    patience: float,
) -> int:
    from kubectl_sky.actions import courier, delivering, submit

    progress = courier.Shown(output.transfer, output.note)
    delivery = delivering.ready(session, prepared, progress, following=not (detach or form))
    uids = submit.uids(prepared, prepared.present)
    if not prepared.complete:
        with output.progress("Sending", len(prepared.manifests.all)) as advance:
            applied = submit.send(session, prepared, on_done=advance)
        uids = submit.uids(prepared, [result.object for result in applied])
    delivery = replace(delivery, known=uids)
    output.out(_told(prepared, form))
    sys.stdout.flush()
    with delivering.delivered(delivery):
        if delivery.following:
            return _follow(session, prepared, uids, patience)
        return _left(prepared)


def _left(prepared: "Prepared") -> int:
    """Explain how to continue what no client follows."""
    if any(plan.suspended for plan in prepared.plans):
        output.note(pipelines.held(prepared.id, len(prepared.plans)))
    if auxiliary := [plan.title for plan in prepared.plans if plan.auxiliary]:
        output.note(pipelines.endless(prepared.id, auxiliary))
    return 0


def _follow(
    session: "Session", prepared: "Prepared", known: Collection[str], patience: float
) -> int:
    from kubectl_sky.actions import find, logs
    from kubectl_sky.cluster.streams import LogOptions

    scope = find.Scope(session.namespace, None, output.warning, known)
    match = find.one(session, scope, prepared.id)
    sys.stdout.flush()
    request = logs.Request(LogOptions(follow=True), patience=patience)
    if isinstance(match, TaskStatus):
        return follow(session, match, request, Printer())
    return pipelines.follow(session, match, request, Printer())


def _told(prepared: "Prepared", form: str | None) -> str:
    """Describe the submission: one line for people, fixed fields for programs."""
    status = "unchanged" if prepared.complete else "submitted"
    word = prepared.word
    if form == "name":
        return f"{word}/{prepared.id}"
    if form:
        phrase = "was submitted before" if prepared.complete else "submitted successfully"
        message = f"{word.capitalize()} {phrase} with ID: {prepared.id}"
        key = "pipeline_id" if prepared.together else "task_id"
        result: dict[str, object] = {key: prepared.id, "status": status, "message": message}
        if prepared.together:
            result["task_ids"] = [plan.id for plan in prepared.plans]
        result["dangers"] = [danger.as_json() for danger in prepared.dangers]
        return output.data(result, form)
    size = output.count(len(prepared.plans), "task")
    if not prepared.together:
        size = _size(prepared.plans[0])
    location = f"in namespace {prepared.plans[0].namespace}"
    return f"{word}/{prepared.id} {status}: {prepared.title}, {size} {location}"


def _size(plan: "Plan") -> str:
    """Describe the size of a task: its nodes, or the tasks of an array."""
    if not plan.array:
        return output.count(len(plan.nodes), "node")
    tasks = output.count(plan.array.count, "task")
    return f"{tasks} of one node, {plan.array.at_once} at once"


def _listed(shown: "Manifests", form: str | None, suffix: str) -> str:
    """Format the objects of a dry run: names for people, else the output of `render`."""
    from kubectl_sky.render.manifests import as_json, as_yaml

    if form == "name":
        return "\n".join(manifest.name.lower() for manifest in shown.all)
    if form:
        return (as_json if form == "json" else as_yaml)(shown.all).rstrip("\n")
    return "\n".join(f"{manifest.name} created{suffix}" for manifest in shown.all)
