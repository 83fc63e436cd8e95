"""`submit`: run the tasks of a file on a cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kubectl_sky.actions import contexts, gather, preflight, taskfile, upload
from kubectl_sky.actions.apply import apply
from kubectl_sky.actions.follow import follow, note_next_steps
from kubectl_sky.actions.logs import LogRequest
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.render.manifests import redacted
from kubectl_sky.workloads.decide import decide

DryRun = Literal["none", "client", "server"]


@dataclass(frozen=True)
class Options:
    """What to submit, where, and what to do then.

    `start_timeout` is that of the first node in seconds; None means the file's, or the default.
    """

    source: taskfile.Source
    connection: Connection
    user: str | None = None
    dry_run: DryRun = "none"
    show_secrets: bool = False
    follow: bool = True
    start_timeout: float | None = None


def submit(
    options: Options,
    ui: UI,
    connect: Callable[[Connection], Session] = Session.connect,
) -> None:
    """Submit the tasks of a file and follow them.

    Raises SkyError: InvalidFiles and UserError before anything is sent, ClusterError after what
    was sent is deleted again, and TaskFailed, Interrupted and ClusterError while it follows.
    """
    task_file = taskfile.load(options.source, ui)
    task_file, connection = contexts.choose(task_file, options.connection)
    session = connect(connection)
    facts = gather.facts(session, task_file, options.user)
    decision = decide(task_file.entries, facts, task_file.settings)
    manifests = task_file.render(decision.plans)
    existing = preflight.check(session, task_file, decision, manifests)
    ui.notes((*task_file.remarks, *decision.notes, *existing.notes))
    ui.notes(upload.notes(decision.plans, task_file.archives, existing))
    if options.dry_run == "server":
        apply(session, decision, existing, ui, dry_run=True)
    if options.dry_run != "none":
        redacted_plans = map(redacted, decision.plans)
        shown = existing.manifests if options.show_secrets else task_file.render(redacted_plans)
        ui.preview(shown)
        return
    uploads = upload.snapshot(decision, task_file.archives, existing, options.follow)
    submitted = apply(session, decision, existing, ui)
    ui.submitted(submitted)
    with upload.to_pods(session, submitted, uploads, ui):
        if options.follow:
            timeout = options.start_timeout or task_file.start_timeout
            request = LogRequest(LogOptions(follow=True), start_timeout=timeout, until_ready=True)
            follow(session, submitted.target, request, ui)
        else:
            note_next_steps(session, submitted.id, decision, ui.note)
