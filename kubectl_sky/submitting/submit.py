"""`submit`: run the tasks of a file on a cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.actions import volumes
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import (
    ClusterError,
    Interrupted,
    InvalidFiles,
    SkyError,
    UserError,
)
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan import storage
from kubectl_sky.render import manifests
from kubectl_sky.render.manifests import Manifests, redact
from kubectl_sky.spec.volumes import Storage
from kubectl_sky.submitting import contexts, forecasts, gather, preflight, taskfile, upload
from kubectl_sky.submitting.apply import apply
from kubectl_sky.submitting.decisions import log_decisions
from kubectl_sky.submitting.preflight import Existing, Guard
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.submitting.uploader import Uploads, how_to_continue
from kubectl_sky.tasks import deletion, multikueue, submissions
from kubectl_sky.tasks.find import Scope, TaskNotFound, get_tasks
from kubectl_sky.tasks.follow import follow, follow_tasks, note_next_steps
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.stop import stop
from kubectl_sky.tasks.submissions import Submitted
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words.facts import ExistingPvc, Facts, Place
from kubectl_sky.words.settings import DEFAULT_IMAGE
from kubectl_sky.workloads.decide import Decision, decide

Connect = Callable[[Connection], Session]
DryRun = Literal["none", "client", "server"]


class Options(Struct, frozen=True):
    """What to submit, where, and what to do then."""

    source: taskfile.Source
    connection: Connection
    user: str | None = None
    dry_run: DryRun = "none"
    show_secrets: bool = False
    follow: bool = True
    start_timeout: float | None = None  # seconds, of the first node; None: the file's or default
    new_volumes: Storage | None = None  # of each volume that does not exist yet; None creates none
    wait_for_volumes: bool | None = None  # that are missing; None if the user has no such flag
    after: str | None = None  # the task that must have succeeded before
    replaces: str = ""  # id of the task to stop, when nothing but its end is in the way


class Prepared(Struct, frozen=True):
    """A file, and what submit will send and upload for it, and the names of volumes to create.

    Nothing exists in `existing` until `check` has compared the tasks with the cluster.
    """

    options: Options
    task_file: TaskFile
    session: Session
    facts: Facts
    decision: Decision
    existing: Existing
    new_volumes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return self.task_file.entries[0].document.file

    @property
    def shown(self) -> Manifests:
        """The manifests for people: without secret values, unless the options show them."""
        if self.options.show_secrets:
            return self.existing.manifests
        return self.task_file.render(map(redact, self.decision.plans))

    @property
    def sent_away(self) -> bool:
        """Whether Kueue sends the task to another cluster."""
        return bool(self.facts.queues and self.facts.queues.multikueue)

    @property
    def log_request(self) -> LogRequest:
        timeout = self.options.start_timeout or self.task_file.start_timeout
        follow = LogOptions(follow=True)
        return LogRequest(
            follow,
            start_timeout=timeout,
            until_ready=True,
            leads=True,
            node_lost_after=self.task_file.settings.lost_after,
            read_silence_limit=lambda: self.task_file.settings.silence_limit,
        )


def submit(options: Options, ui: UI, connect: Connect | None = None) -> None:
    """Submit the tasks of a file and follow them.

    Raises SkyError: InvalidFiles and UserError before anything is sent, ClusterError after what
    was sent is deleted again, and TaskFailed, Interrupted and ClusterError while it follows.
    """
    submit_file(options, taskfile.prepare(options.source, ui), ui, connect)


def submit_file(
    options: Options, task_file: TaskFile, ui: UI, connect: Connect | None = None
) -> None:
    """Submit a file that is loaded, as `submit` does."""
    file = check(plan(options, task_file, connect or Session.connect), ui)
    if options.dry_run != "none":
        preview([file], ui)
        return

    uploads = _snapshot(file)
    if options.replaces:
        _replace(file, ui)

    submitted = _send(file, ui)
    with upload.to_pods(file.session, submitted, uploads, ui):
        if options.follow and file.sent_away:
            follow(
                *multikueue.wait_until_sent(file.session, submitted.target, ui),
                file.log_request,
                ui,
            )
        elif options.follow:
            with _explain_unfollowed(submitted):
                follow(file.session, submitted.target, file.log_request, ui)
        else:
            note_next_steps(file.session, submitted.id, file.decision, ui.note)


def plan(options: Options, task_file: TaskFile, connect: Connect) -> Prepared:
    """Connect, gather facts of the cluster, and plan the tasks of a file. Raises SkyError."""
    task_file, connection = contexts.choose(task_file, options.connection)
    session = connect(connection)
    facts = gather.facts(session, task_file, options.user)
    if after := options.after or task_file.after:
        facts = replace(facts, after=gather.predecessor(session, facts, after))
    if not options.new_volumes or facts.pvcs is None:
        return decided(options, task_file, session, facts)
    mounted = (volume.name for task in task_file.tasks for volume in task.volumes)
    new = tuple(name for name in dict.fromkeys(mounted) if name and name not in facts.pvcs)
    planned = {name: ExistingPvc(name, options.new_volumes.access_modes) for name in new}
    facts = replace(facts, pvcs={**facts.pvcs, **planned})
    return replace(decided(options, task_file, session, facts), new_volumes=new)


def decided(options: Options, task_file: TaskFile, session: Session, facts: Facts) -> Prepared:
    """Plan the tasks of a file by what is known of the cluster. Raises SkyError."""
    decision = decide(task_file.entries, facts, task_file.settings)
    log_decisions(task_file, decision)
    existing = Existing(task_file.render(decision.plans))
    return Prepared(options, task_file, session, facts, decision, existing)


def check(prepared: Prepared, ui: UI, guard: Guard = nullcontext) -> Prepared:
    """Compare the planned tasks with the cluster, and show all notes. Raises SkyError."""
    task_file = prepared.task_file
    decision = prepared.decision
    with guard():
        _check_volumes(prepared, ui)
    manifests_ = prepared.existing.manifests
    replaced = prepared.options.replaces
    existing = preflight.check(
        prepared.session, task_file, decision, manifests_, guard, replaced=replaced
    )
    ui.notes((*task_file.remarks, *decision.notes, *existing.notes))
    if task_file.after and not prepared.options.after:
        after = f"starts when {task_file.after} has succeeded"
        ui.note(f"--dependency: {after}, unless --after names another task")
    if new := prepared.options.new_volumes:
        suffix = "" if prepared.options.dry_run == "none" else " (dry run)"
        ui.notes(f'volume "{name}" is created: {new.size}{suffix}' for name in prepared.new_volumes)
    ui.notes(upload.notes(decision.plans, task_file.archives, existing))
    return replace(prepared, existing=existing)


def _replace(file: Prepared, ui: UI) -> None:
    """Stop the task that a checked file replaces, once the API server would accept the file."""
    session = file.session
    running: list[TaskStatus] = []
    with suppress(TaskNotFound):
        targets = get_tasks(session, Scope(session.namespace, None), [file.options.replaces])
        running = [task for task in targets if not task.state.ended]
    if not running:
        return

    try:
        apply(session, file.decision, file.existing, ui, dry_run=True)
    except SkyError as error:
        hint = f"task {file.options.replaces} was not stopped"
        error.hint = f"{error.hint}; {hint}" if error.hint else hint
        raise

    ui.notes(f"task {task.id} ({task.name}) is stopped first" for task in running)
    ui.notes(f"warning: {text}" for text in stop(session, running))
    remaining = deletion.wait_until_gone(session, deletion.of_tasks(running))
    ui.notes(f"warning: still being deleted: {item}" for item in remaining)


def _check_volumes(file: Prepared, ui: UI) -> None:
    """Raise InvalidFiles if volumes do not exist, or note that the task waits for them."""
    waits = file.options.wait_for_volumes
    problems = []
    for entry in file.task_file.entries:
        for volume in storage.missing(entry.task, file.facts):
            create = f"kubectl sky volumes create {volume.name} SIZE"
            message = (
                f'volume or PVC "{volume.name}" not found in namespace "{file.facts.namespace}"'
            )

            if waits:
                ui.note(
                    f"volumes.{volume.path}: {message}; the task waits for it; to create it, run"
                    f' "{create} --pvc-name {volume.name}"'
                )
                continue

            others = "" if waits is None else ", or submit with --create-volumes SIZE"
            others += "" if waits is None else " or --wait-for-volumes"
            hint = f"run `{create}`{others}"
            if of_others := storage.of_others(volume.name, file.facts):
                hint = f'write "{of_others[0]}", a PVC of another owner, or {hint}'
            problems.append(entry.document.problem(("volumes", volume.path), message, hint))

    if problems:
        raise InvalidFiles(problems)


def preview(files: Sequence[Prepared], ui: UI) -> None:
    """Show what would be sent. A dry run on the server raises the errors of `apply`."""
    for file in files:
        if file.options.dry_run == "server":
            if new := file.options.new_volumes:
                volumes.check_new(file.session, file.facts.user, file.new_volumes, new)
            apply(file.session, file.decision, file.existing, ui, dry_run=True)
            workloads = [manifest.object for manifest in file.existing.manifests.workload]
            if not file.existing.complete:
                namespace = file.decision.namespace or file.session.namespace
                ui.notes(
                    forecasts.describe(file.session, namespace, workloads, file.decision.plans)
                )
    ui.preview(manifests.merge([file.shown for file in files]))


def _snapshot(file: Prepared) -> Uploads:
    archives = file.task_file.archives
    follows = file.options.follow
    uploads = upload.snapshot(file.decision, archives, file.existing, follows)
    if uploads.items and file.sent_away:
        raise UserError(
            "local files that do not fit into ConfigMaps cannot be uploaded to a task in a queue of"
            " MultiKueue",
            "use a git repository as workdir, or a bucket",
        )
    return uploads


def _send(file: Prepared, ui: UI) -> Submitted:
    session = file.session
    new = file.options.new_volumes

    with ExitStack() as created:
        if new:
            created.enter_context(volumes.created(session, file.facts.user, file.new_volumes, new))
        if file.sent_away:
            manifests_ = file.existing.manifests
            created.enter_context(
                multikueue.copy_to_workers(session, manifests_, preflight.refuse_foreign)
            )
        submitted = apply(session, file.decision, file.existing, ui)

    namespace = file.decision.namespace or session.namespace
    place = Place(session.server, session.context, namespace)
    submitted = replace(submitted, file=file.path, place=place)
    submissions.remember(session, submitted, ui.note)

    if ui.live or any(plan.image != DEFAULT_IMAGE for plan in file.decision.plans):
        ui.notes(session.practice_warnings)
    ui.submitted(submitted)
    return submitted


def prepare_all(files: Sequence[Options], ui: UI, guard: Guard = nullcontext) -> list[Prepared]:
    """Check and plan all files; sends nothing. Raises SkyError."""
    task_files = taskfile.prepare_all([options.source for options in files], ui)
    return [
        check(plan(options, task_file, Session.connect), ui, guard)
        for options, task_file in zip(files, task_files, strict=True)
    ]


def submit_all(files: Sequence[Options], ui: UI) -> None:
    """Submit the tasks of several files, which are all checked before anything is sent.

    The flags of all files are the same. As with kubectl, a file that the cluster refuses does not
    stop the others: its error is raised when they are complete. Raises the errors of `submit`.
    """
    prepared = prepare_all(files, ui)
    if files[0].dry_run != "none":
        preview(prepared, ui)
        return

    if files[0].follow:
        _check_followable(prepared)

    uploads = list(map(_snapshot, prepared))
    errors = list[SkyError]()
    sent = _send_all(prepared, uploads, ui, errors)

    if files[0].follow:
        with _collect(errors):
            _follow_all(sent, ui)

    with _explain(sent, ui):
        while sent and not files[0].follow:
            item = sent.pop(0)
            session = item.file.session
            submitted = item.submitted
            with _collect(errors), upload.to_pods(session, submitted, item.uploads, ui):
                note_next_steps(session, submitted.id, item.file.decision, ui.note)

    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [f"{error.what}; {error.hint}" if error.hint else error.what for error in errors]
        joined = SkyError("\nerror: ".join(lines))
        joined.exit_code = errors[0].exit_code
        raise joined


class _Sent(Struct, frozen=True):
    """One of several files, whose objects are in the cluster, and what remains to be uploaded."""

    file: Prepared
    uploads: Uploads
    submitted: Submitted


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


def _send_all(
    files: Sequence[Prepared], uploads: Sequence[Uploads], ui: UI, errors: list[SkyError]
) -> list[_Sent]:
    """Send the objects of all files; add the errors of those that the cluster refuses."""
    sent: list[_Sent] = []
    with _explain(sent, ui):
        for file, of_file in zip(files, uploads, strict=True):
            try:
                sent.append(_Sent(file, of_file, _send(file, ui)))
            except Interrupted:
                raise
            except SkyError as error:
                errors.append(error)
                error.what = f"{file.path} was not submitted: {error.what}"
                ui.note(f"warning: {error.what}")
    return sent


def _follow_all(sent: Sequence[_Sent], ui: UI) -> None:
    if not sent:
        return
    requests = [item.file.log_request for item in sent]
    request = max(requests, key=lambda request: request.start_timeout)
    targets = [item.submitted.target for item in sent]
    with ExitStack() as stack:
        for item in sent:
            stack.enter_context(
                upload.to_pods(
                    item.file.session, item.submitted, item.uploads, ui, in_background=True
                )
            )
        tasks = [target for target in targets if isinstance(target, TaskStatus)]
        follow_tasks(sent[0].file.session, tasks, request, ui)


@contextmanager
def _explain(sent: Sequence[_Sent], ui: UI) -> Iterator[None]:
    """On Ctrl-C, say how the tasks that were sent get their files."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        ui.notes(how_to_continue(item.submitted) for item in sent if item.uploads.items)
        raise


@contextmanager
def _explain_unfollowed(submitted: Submitted) -> Iterator[None]:
    """If the cluster ends the following, say that the task goes on."""
    try:
        yield
    except ClusterError as error:
        title = f"{submitted.decision.word} {submitted.id}"
        raise type(error)(
            f"{title} was submitted and goes on, but cannot be followed: {error.what}", error.hint
        ) from None


@contextmanager
def _collect(errors: list[SkyError]) -> Iterator[None]:
    try:
        yield
    except Interrupted:
        raise
    except SkyError as error:
        errors.append(error)
