"""From a task file and flags to checked tasks: the steps of all commands before the cluster."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.actions import skypilot_settings
from kubectl_sky.actions.config import preferences
from kubectl_sky.actions.documents import parse, read_documents
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.plan.plan import Plan
from kubectl_sky.slurm.convert import Call
from kubectl_sky.spec import service
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import PartlyRead
from kubectl_sky.spec.task import Task
from kubectl_sky.submitting import check, packing
from kubectl_sky.submitting.flags import apply_flags
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import names
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.decide import TaskEntry

if TYPE_CHECKING:
    from kubectl_sky.render.manifests import Manifests

_START_TIMEOUT = 300.0  # seconds


class Source(Struct, frozen=True):
    """A task file and the flags that change it."""

    path: str
    overrides: Overrides
    environ: Mapping[str, str]
    stdin: BinaryIO
    strict: bool = False  # whether warnings are errors
    local_files: bool = True  # whether they are read: a server has none of a caller
    arguments: tuple[str, ...] = ()  # of a batch script
    in_memory: bool = False  # `stdin` has the content of the file
    serve: service.Flags | None = None  # the file is a service's
    services: bool = False  # the file may be a service's
    adapt: Callable[[tuple[TaskEntry, ...]], tuple[TaskEntry, ...]] = tuple  # such as to a dev pod
    max_nodes: int = sys.maxsize  # of all tasks together
    max_bytes: int = sys.maxsize  # of their manifests


class TaskFile(Struct, frozen=True):
    """A checked file: its tasks in order, with warnings and notes for the user.

    `id` is the id of the task, or of the pipeline or group.
    """

    entries: tuple[TaskEntry, ...]
    id: str
    given_id: bool  # whether the user chose it; a generated id cannot exist yet
    templates: Path | None
    warnings: tuple[Problem, ...]
    settings: Settings
    remarks: tuple[str, ...] = ()  # notes on how flags, settings and context change the file
    after: str = ""  # the task that must have succeeded before
    max_bytes: int = sys.maxsize  # of the manifests

    @property
    def start_timeout(self) -> float:
        seconds = self.tasks[0].kubernetes.provision_timeout
        return _START_TIMEOUT if seconds is None else seconds

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(entry.task for entry in self.entries)

    @property
    def archives(self) -> dict[str, Mapping[str, Archive]]:
        """Return the local files, by task id and then by target path."""
        return {entry.task_id: entry.archives for entry in self.entries}

    def render(self, plans: Iterable[Plan]) -> "Manifests":
        """Render the plans of the tasks. Raises InvalidFiles with the position of a problem.

        Raises UserError if the manifests are larger than the limit.
        """
        from kubectl_sky.render import manifests  # noqa: PLC0415 -- `validate` needs no jinja2

        budget = manifests.Budget(self.max_bytes)
        rendered = []
        for entry, plan in zip(self.entries, plans, strict=True):
            with entry.located():
                rendered.append(manifests.render(plan, self.templates, budget))
        return manifests.merge(rendered)


def load(source: Source) -> tuple[Sequence[Document], list[Problem]]:
    """Read the documents of a file, and apply the flags; return also why others are not read.

    Raises InvalidFiles and UserError.
    """
    documents: Sequence[Document]
    problems = list[Problem]()
    call = Call(source.arguments, sets_image=source.overrides.image is not None)
    try:
        if source.in_memory:
            text = source.stdin.read()
            documents = parse(text, source.path, call, source.environ)
        else:
            documents = read_documents(source.path, source.stdin, call=call, environ=source.environ)
    except PartlyRead as error:
        documents = error.documents
        problems = [*error.problems]
        if not documents:
            raise
    return apply_flags(documents, source.overrides, source.environ), problems


def prepare(source: Source, ui: UI) -> TaskFile:
    """Load a file, check it, and pack its local files; report warnings and risky fields.

    Raises InvalidFiles with all problems.
    """
    overrides = source.overrides
    environ = source.environ
    documents, problems = load(source)
    serve = source.serve
    if source.services and not overrides.as_task and documents[0].get("service") is not None:
        serve = service.Flags()
    settings = _settings(overrides, environ)
    if source.local_files:
        settings = skypilot_settings.add_nebius(settings, documents, environ)
    strict = source.strict
    scripts = source.local_files
    problems += check.problems(
        documents, settings, overrides.as_task, strict=strict, scripts=scripts
    )
    remarks: list[str] = []
    if overrides.as_task:
        documents, remarks = check.as_tasks(documents)
    errors = _list_errors(source, documents, problems, settings, serve)
    path = source.path if source.local_files else None
    review = check.review(path, documents, settings, environ, overrides)
    if errors or review.refused:
        raise InvalidFiles(sorted({*errors, *review.refused}))

    file_id = _check_id(overrides.task_id) or names.new_id()
    tasks = check.of_documents(documents, file_id, overrides)
    tasks = check.as_service(tasks, serve, overrides, settings)
    check.refuse_unplannable(tasks, settings, source.max_nodes)
    tasks = source.adapt(tasks)
    transfer = ui.transfer if source.local_files else None
    packer = packing.packer(transfer, settings, environ)
    tasks, credentials = packing.pack(tasks, packer)
    review = check.apply_settings((*review.dangers, *credentials), settings, environ)
    if review.refused:
        raise InvalidFiles(review.refused)
    ui.problems(problems)
    ui.review(review.reported)
    ui.notes(packer.notes)

    notes = [note for document in documents for note in document.notes]
    unread = _unread(documents, environ) if path else ()
    templates = Path(overrides.templates) if overrides.templates else None
    return TaskFile(
        entries=tasks,
        id=file_id,
        given_id=overrides.task_id is not None,
        templates=templates,
        warnings=tuple(problems),
        settings=settings,
        remarks=(*remarks, *notes, *unread),
        after=documents[0].after,
        max_bytes=source.max_bytes,
    )


def _list_errors(
    source: Source,
    documents: Sequence[Document],
    problems: Sequence[Problem],
    settings: Settings,
    serve: service.Flags | None,
) -> list[Problem]:
    """Return the errors of documents, and what submit refuses of their valid parts."""
    as_task = source.overrides.as_task
    local_files = source.local_files
    errors = [problem for problem in problems if problem.severity == "error"]
    parts = check.find_valid_parts(documents, as_task) if errors else documents
    errors += check.refusals(parts, settings, as_task, serve, local_files)
    if errors and local_files:
        errors += packing.unsendable(parts, settings, source.environ)
    return errors


def _unread(documents: Sequence[Document], environ: Mapping[str, str]) -> Iterator[str]:
    return skypilot_settings.find_unread(documents, skypilot_settings.read(environ))


def prepare_all(sources: Sequence[Source], ui: UI) -> list[TaskFile]:
    """Prepare several files. Raises InvalidFiles with the problems of all of them."""
    task_files = []
    problems = list[Problem]()
    for source in sources:
        try:
            task_files.append(prepare(source, ui))
        except InvalidFiles as error:
            problems += error.problems
    if problems:
        raise InvalidFiles(problems)
    return task_files


def _settings(overrides: Overrides, environ: Mapping[str, str]) -> Settings:
    settings = preferences(environ)
    return (
        replace(settings, bucket_mode=overrides.bucket_mode) if overrides.bucket_mode else settings
    )


def _check_id(task_id: str | None) -> str | None:
    if task_id is not None and not names.ID.fullmatch(task_id):
        raise UserError(
            f"--id {task_id}: an id has {names.ID_LENGTH} lower-case letters and digits,"
            " starting with a letter",
            "for example: --id train001",
        )
    return task_id
