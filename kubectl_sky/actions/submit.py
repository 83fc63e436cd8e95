"""`submit`: run the tasks of a file on a cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from kubectl_sky.actions import contexts, gather, preflight, submissions, taskfile, upload
from kubectl_sky.actions.apply import Submitted, apply
from kubectl_sky.actions.follow import follow, follow_tasks, note_next_steps
from kubectl_sky.actions.logs import LogRequest
from kubectl_sky.actions.preflight import Existing, Guard
from kubectl_sky.actions.taskfile import TaskFile
from kubectl_sky.actions.ui import UI
from kubectl_sky.actions.uploader import Uploads, how_to_continue
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import (
    Interrupted,
    SkyError,
    UserError,
)
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.render import manifests
from kubectl_sky.render.manifests import Manifests, redacted
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import Decision, decide

_PRACTICE = "practice cluster: "  # of the API server's warnings, the one for a terminal

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


@dataclass(frozen=True)
class Prepared:
    """A file, and what submit will send and upload for it.

    Nothing exists in `existing` until `check` has compared the tasks with the cluster.
    """

    options: Options
    task_file: TaskFile
    session: Session
    facts: Facts
    decision: Decision
    existing: Existing

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.task_file.entries[0].document.file

    @property
    def shown(self) -> Manifests:
        """The manifests for people: without secret values, unless the options show them."""
        if self.options.show_secrets:
            return self.existing.manifests
        return self.task_file.render(map(redacted, self.decision.plans))

    @property
    def start_timeout(self) -> float:
        """The time limit of the first node in seconds."""
        return self.options.start_timeout or self.task_file.start_timeout


@dataclass(frozen=True)
class _Sent:
    """A file whose objects are in the cluster, and what remains to be uploaded."""

    file: Prepared
    uploads: Uploads
    submitted: Submitted

    def upload(self, ui: UI, *, in_background: bool = False) -> AbstractContextManager[None]:
        """Upload the files, as `upload.to_pods`."""
        return upload.to_pods(
            self.file.session, self.submitted, self.uploads, ui, in_background=in_background
        )


def submit(
    options: Options,
    ui: UI,
    connect: Callable[[Connection], Session] | None = None,
) -> None:
    """Submit the tasks of a file and follow them.

    Raises SkyError: InvalidFiles and UserError before anything is sent, ClusterError after what
    was sent is deleted again, and TaskFailed, Interrupted and ClusterError while it follows.
    """
    submit_all([options], ui, connect)


def submit_all(
    files: Sequence[Options],
    ui: UI,
    connect: Callable[[Connection], Session] | None = None,
) -> None:
    """Submit the tasks of files, which are all checked before anything is sent, and follow them.

    The flags of all files are the same. As with kubectl, a file that the cluster refuses does not
    stop the others: its error is raised when they are complete. Raises the errors of `submit`.
    """
    prepared = prepare_all(files, ui, connect)
    options = files[0]
    if options.dry_run != "none":
        for file in prepared if options.dry_run == "server" else ():
            apply(file.session, file.decision, file.existing, ui, dry_run=True)
        ui.preview(manifests.merged([file.shown for file in prepared]))
        return
    if len(files) > 1 and options.follow:
        _check_followable(prepared)
    uploads = [
        upload.snapshot(file.decision, file.task_file.archives, file.existing, options.follow)
        for file in prepared
    ]
    errors = list[SkyError]()
    sent = _send_all(prepared, uploads, ui, errors)
    if not options.follow:
        _finish_detached(sent, ui, errors)
    elif sent:
        with _collected(errors):
            _follow(sent, ui, several=len(files) > 1)
    if errors:
        raise _joined(errors)


def _send_all(
    files: Sequence[Prepared], uploads: Sequence[Uploads], ui: UI, errors: list[SkyError]
) -> list[_Sent]:
    """Send the objects of all files; add the errors of those that the cluster refuses."""
    sent: list[_Sent] = []
    with _explained(sent, ui):
        for file, of_file in zip(files, uploads, strict=True):
            try:
                sent.append(_Sent(file, of_file, _send(file, ui)))
            except Interrupted:
                raise
            except SkyError as error:
                errors.append(error)
                if len(files) > 1:
                    error.what = f"{file.path} was not submitted: {error.what}"
                    ui.note(f"warning: {error.what}")
    return sent


def _finish_detached(sent: list[_Sent], ui: UI, errors: list[SkyError]) -> None:
    with _explained(sent, ui):
        while sent:
            item = sent.pop(0)
            with _collected(errors), item.upload(ui):
                session, decision = item.file.session, item.file.decision
                note_next_steps(session, item.submitted.id, decision, ui.note)


@contextmanager
def _explained(sent: Sequence[_Sent], ui: UI) -> Iterator[None]:
    """On Ctrl-C, say how the tasks that were sent get their files."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        ui.notes(how_to_continue(item.submitted) for item in sent if item.uploads.items)
        raise


@contextmanager
def _collected(errors: list[SkyError]) -> Iterator[None]:
    """Keep an error for later, except Ctrl-C."""
    try:
        yield
    except Interrupted:
        raise
    except SkyError as error:
        errors.append(error)


def _joined(errors: Sequence[SkyError]) -> SkyError:
    """Return several errors as one, with the exit code of the first."""
    if len(errors) == 1:
        return errors[0]
    lines = [f"{error.what}; {error.hint}" if error.hint else error.what for error in errors]
    joined = SkyError("\nerror: ".join(lines))
    joined.exit_code = errors[0].exit_code
    return joined


def prepare_all(
    files: Sequence[Options],
    ui: UI,
    connect: Callable[[Connection], Session] | None = None,
) -> list[Prepared]:
    """Check and plan all files; sends nothing. Raises SkyError."""
    task_files = taskfile.prepare_all([options.source for options in files], ui)
    return [
        check(plan(options, task_file, connect or Session.connect), ui)
        for options, task_file in zip(files, task_files, strict=True)
    ]


def _send(file: Prepared, ui: UI) -> Submitted:
    submitted = replace(apply(file.session, file.decision, file.existing, ui), file=file.path)
    submissions.remember(file.session, submitted.target, ui)
    if ui.live:
        ui.notes(text for text in file.session.warnings if text.startswith(_PRACTICE))
    ui.submitted(submitted)
    return submitted


def plan(
    options: Options, task_file: TaskFile, connect: Callable[[Connection], Session]
) -> Prepared:
    """Connect, and plan the tasks of a file. Raises SkyError."""
    task_file, connection = contexts.choose(task_file, options.connection)
    session = connect(connection)
    facts = gather.facts(session, task_file, options.user)
    return decided(options, task_file, session, facts)


def decided(options: Options, task_file: TaskFile, session: Session, facts: Facts) -> Prepared:
    """Plan the tasks of a file by what is known of the cluster. Raises SkyError."""
    decision = decide(task_file.entries, facts, task_file.settings)
    existing = Existing(task_file.render(decision.plans))
    return Prepared(options, task_file, session, facts, decision, existing)


def check(prepared: Prepared, ui: UI, guard: Guard = nullcontext) -> Prepared:
    """Compare the planned tasks with the cluster, and show all notes. Raises SkyError."""
    task_file, decision = prepared.task_file, prepared.decision
    existing = preflight.check(
        prepared.session, task_file, decision, prepared.existing.manifests, guard
    )
    ui.notes((*task_file.remarks, *decision.notes, *existing.notes))
    ui.notes(upload.notes(decision.plans, task_file.archives, existing))
    return replace(prepared, existing=existing)


def _check_followable(files: Sequence[Prepared]) -> None:
    """Raise UserError if this client cannot follow the tasks of several files together."""
    together = [file for file in files if file.decision.together]
    if together:
        raise UserError(
            f"{together[0].path}: several tasks cannot be followed with other files",
            "submit it separately, or use --detach",
        )
    if len({file.session.account for file in files}) > 1:
        contexts = ", ".join(dict.fromkeys(file.session.context for file in files))
        message = f"contexts of several clusters or users cannot be followed together: {contexts}"
        raise UserError(message, "use --detach")


def _follow(sent: Sequence[_Sent], ui: UI, *, several: bool) -> None:
    timeout = max(item.file.start_timeout for item in sent)
    request = LogRequest(
        LogOptions(follow=True), start_timeout=timeout, until_ready=True, leads=True
    )
    targets = [item.submitted.target for item in sent]
    session = sent[0].file.session
    with ExitStack() as stack:
        for item in sent:
            stack.enter_context(item.upload(ui, in_background=several))
        if several:
            tasks = [target for target in targets if isinstance(target, TaskStatus)]
            follow_tasks(session, tasks, request, ui)
        else:
            follow(session, targets[0], request, ui)
