"""`kubectl sky submit`."""

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.cli import options, output
from kubectl_sky.cli.logs import follow

if TYPE_CHECKING:
    from kubectl_sky.actions.submit import Prepared
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.render.manifests import Manifests


@click.command("submit")
@click.argument("file")
@click.option("-d", "--detach", is_flag=True, help="Do not follow the logs.")
@options.task
@options.dry_run
@click.option("--show-secrets", is_flag=True, help="With --dry-run -o yaml: secrets' values too.")
@click.option(
    "--wait-timeout",
    type=options.DURATION,
    default="5m",
    show_default=True,
    help="How long the first node may take to start.",
)
@options.strict
@options.where
@options.output("json", "yaml", "name")
def command(
    file: str, overrides: Overrides, where: options.Where, form: str | None, **flags: object
) -> int:
    """Run the task in FILE (`-` is standard input) and follow its logs.

    Prints the task's id at once, and exits as the task does: with 4 when it failed. Ctrl-C leaves
    the task running. With -o it only says what was submitted.
    """
    from kubectl_sky.actions import context, submit
    from kubectl_sky.actions.draft import draft
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.render.manifests import redacted

    drafted = draft(file, overrides, os.environ, sys.stdin.buffer, bool(flags["strict"]))
    for problem in drafted.warnings:
        output.note(str(problem))
    drafted, connection = context.choose(drafted, where.flags())
    session = Session.connect(connection)
    prepared = submit.prepare(session, drafted, where.user)
    for note in prepared.notes:
        output.note(note)
    if flags["dry_run"] == "none":
        return _submit(session, prepared, form, flags)
    if flags["dry_run"] == "server":
        submit.send(session, prepared, dry_run=True)
    shown = prepared.manifests
    if not flags["show_secrets"]:
        shown = drafted.manifests(redacted(prepared.plan))
    output.out(_listed(shown, form, options.DRY_RUNS[str(flags["dry_run"])]))
    return 0


def _submit(
    session: "Session", prepared: "Prepared", form: str | None, flags: dict[str, object]
) -> int:
    from kubectl_sky.actions import find, logs, submit
    from kubectl_sky.cluster.streams import LogOptions

    if not prepared.complete:
        with output.progress("Sending", len(prepared.manifests.all)) as advance:
            submit.send(session, prepared, on_done=advance)
    output.out(_told(prepared, form))
    if flags["detach"] or form:
        return 0
    task = find.task(session, find.Scope(session.namespace, None), prepared.plan.id)
    timeout = flags["wait_timeout"]
    assert isinstance(timeout, timedelta)
    sys.stdout.flush()
    return follow(
        session, task, logs.Request(LogOptions(follow=True), patience=timeout.total_seconds())
    )


def _told(prepared: "Prepared", form: str | None) -> str:
    """What was done, in the seed's words for programs."""
    plan = prepared.plan
    status = "unchanged" if prepared.complete else "submitted"
    if form == "name":
        return f"task/{plan.id}"
    if form:
        done = "was submitted before" if prepared.complete else "submitted successfully"
        message = f"Task {done} with ID: {plan.id}"
        return output.data({"task_id": plan.id, "status": status, "message": message}, form)
    nodes = output.count(len(plan.nodes), "node")
    return f"task/{plan.id} {status}: {plan.title}, {nodes} in namespace {plan.namespace}"


def _listed(shown: "Manifests", form: str | None, suffix: str) -> str:
    """The objects of a dry run: by name for people, else as `render` prints them."""
    from kubectl_sky.render.manifests import as_json, as_yaml

    if form == "name":
        return "\n".join(manifest.name.lower() for manifest in shown.all)
    if form:
        return (as_json if form == "json" else as_yaml)(shown.all).rstrip("\n")
    return "\n".join(f"{manifest.name} created{suffix}" for manifest in shown.all)
