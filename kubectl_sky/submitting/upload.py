"""Upload files that are too large for ConfigMaps directly to the pods.

A node waits in its entrypoint until its files have arrived. This client sends them, and goes on for
as long as nodes may start or restart.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    Interrupted,
    SkyError,
    TaskFailed,
    UserError,
)
from kubectl_sky.plan.plan import Plan
from kubectl_sky.submitting.preflight import Existing
from kubectl_sky.submitting.uploader import Snapshots, Upload, Uploader, Uploads, how_to_continue
from kubectl_sky.tasks.submissions import Submitted
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import names
from kubectl_sky.words.facts import Archive
from kubectl_sky.workloads.arrays import ArrayJob
from kubectl_sky.workloads.decide import Decision


def snapshot(
    decision: Decision,
    archives: Mapping[str, Mapping[str, Archive]],
    existing: Existing,
    following: bool,
) -> Uploads:
    """Take a snapshot of the files to upload, before anything is sent.

    Raises UserError for files that no client would send to the later stages.
    """
    items = tuple(
        Upload(plan.id, number, files, archives[plan.id][files.path])
        for plan in decision.plans
        for number, files in plan.file_transfer.large_files.items()
    )

    if items and not following and any(plan.suspended for plan in decision.plans):
        raise UserError(
            f"{items[0].files.source}: too large for a ConfigMap; submit must keep running to"
            " upload it to the later stages",
            "submit without --detach and -o, exclude files with .skyignore, or use a volume",
        )

    snapshots = Snapshots()
    for upload in () if existing.complete else items:
        snapshots.of(upload)
    return Uploads(items, snapshots, following)


def notes(
    plans: Sequence[Plan], archives: Mapping[str, Mapping[str, Archive]], existing: Existing
) -> Iterator[str]:
    """Yield one line on how many files are uploaded, their size, and the method."""
    items = (archive for of_task in archives.values() for archive in of_task.values())
    unique = {item.digest: item for item in items}.values()
    if not unique:
        return
    files = sum(item.files for item in unique)
    size = sum(item.size for item in unique)
    shared = (existing.shared or {}).values()
    uploaded = sum(names.FILES in (item.get("labels") or {}) for item in shared)
    routes = list(_routes(plans, uploaded, existing.complete))
    yield f"files: {files:,}, {_bytes(size)}, sent {' and '.join(routes)}"


def _routes(plans: Sequence[Plan], existing: int, complete: bool) -> Iterator[str]:
    """Yield the methods by which files are sent; `existing` counts the ConfigMaps."""
    total = len(
        {config_map.name for plan in plans for config_map in plan.file_transfer.config_maps}
    )
    if total:
        maps = f"{total} ConfigMap{'s' * (total > 1)}"
        all_exist = f"already exist{'s' * (total == 1)}"
        suffix = f" ({all_exist if existing == total else f'{existing} already exist'})"
        yield f"in {maps}{suffix if existing else ''}"

    if any(plan.file_transfer.secret for plan in plans):
        yield "in a Secret"
    if any(plan.file_transfer.large_files for plan in plans):
        later = len(plans) > 1 or any(
            plan.backend == ArrayJob.name or plan.restarts or plan.recovers for plan in plans
        )
        condition = " that lack them" if complete else ", while this command runs" * later
        yield f"directly to the pods{condition}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


@contextmanager
def to_pods(
    session: Session,
    submitted: Submitted,
    uploads: Uploads,
    ui: UI,
    *,
    in_background: bool = False,
) -> Iterator[None]:
    """Upload the files to every node as soon as it waits for them, then run the body.

    The body starts at once `in_background`, or if tasks start at different times. If an upload
    fails, the tasks that lack files are deleted. Raises SkyError.
    """
    plans = submitted.decision.plans
    independent = in_background or submitted.decision.independent

    if uploads.items and not (independent and uploads.following):
        uploader = Uploader(session, submitted, uploads, ui)
        try:
            uploader.run(Event())
        except SkyError as error:
            raise type(error)(f"{error.what}; {uploader.abandon()}", error.hint) from None
        except KeyboardInterrupt:
            raise Interrupted("interrupted", uploader.abandon()) from None
        if uploader.late:
            message = f"{submitted.decision.word} {submitted.id}: a node finished without its files"
            if not uploads.following:
                raise TaskFailed(message, f"see `kubectl sky status {submitted.id}`")
            ui.note(message)

    may_restart = independent or any(plan.restarts or plan.recovers for plan in plans)
    if not (uploads.items and uploads.following and may_restart):
        yield
        return
    with _in_background(session, submitted, uploads, ui):
        yield


@contextmanager
def _in_background(
    session: Session, submitted: Submitted, uploads: Uploads, ui: UI
) -> Iterator[None]:
    """Upload while the body runs, also to nodes that restart.

    If an upload fails, the tasks that lack files are deleted.
    """
    stop = Event()
    failures = list[SkyError]()
    uploader = Uploader(session, submitted, uploads, _Quiet(ui), lasting=True)

    def run() -> None:
        try:
            uploader.run(stop)
        except SkyError as error:
            if not stop.is_set():
                failures.append(type(error)(f"{error.what}; {uploader.abandon()}", error.hint))

    thread = parallel.run_daemon(run, name="upload")
    try:
        yield
    except SkyError as error:
        if failures:
            raise failures[0] from None
        if isinstance(error, Interrupted) and uploader.missing:
            ui.note(how_to_continue(submitted))
        raise
    finally:
        stop.set()
        thread.join()


class _Quiet(UI):
    """Report notes, but no progress bars among the log lines."""

    def __init__(self, ui: UI) -> None:
        self._ui = ui

    def note(self, text: str) -> None:
        self._ui.note(text)
