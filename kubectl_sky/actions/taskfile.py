"""Read a task file and flags into checked tasks, for `render` and `submit`."""

import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kubectl_sky.actions import validate
from kubectl_sky.actions.flags import Overrides, apply_flags
from kubectl_sky.actions.packing import Packer
from kubectl_sky.actions.preferences import preferences
from kubectl_sky.actions.ui import UI
from kubectl_sky.actions.validate import Review, apply_settings, review
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.plan import runtime
from kubectl_sky.plan.pipeline import members, title_of, with_names
from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec import service, unsupported
from kubectl_sky.spec.arrays import array
from kubectl_sky.spec.document import Document, entries, printable
from kubectl_sky.spec.load import load as read_yaml
from kubectl_sky.spec.pipeline import pipeline_of
from kubectl_sky.spec.secret import without_kept
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.sync.archive import Limits
from kubectl_sky.sync.archive_cache import Cache
from kubectl_sky.words import names
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.private import Folder
from kubectl_sky.words.settings import Settings, cache_folder
from kubectl_sky.workloads.arrays import Array
from kubectl_sky.workloads.decide import AUTO, TaskEntry
from kubectl_sky.workloads.service import as_replica

if TYPE_CHECKING:
    from kubectl_sky.render.manifests import Manifests

_START_TIMEOUT = 300.0  # seconds
_SPLIT = "send several requests, or use the plugin with --server-url"
_COMPATIBLE_BACKENDS = (None, AUTO, "indexed")  # backends that are compatible with an array


@dataclass(frozen=True)
class Source:
    """A task file and the flags that change it.

    `strict` treats warnings as errors. Local files are read if `local_files` is set: a server may
    not read its own files for a caller, and limits the nodes of all tasks together, and the
    bytes of their manifests. With `in_memory`, `stdin` has the content of the file. With
    `serve`, the file is a service's. `adapt` changes the tasks of the file, such as to a
    development pod.
    """

    path: str
    overrides: Overrides
    environ: Mapping[str, str]
    stdin: BinaryIO
    strict: bool = False
    local_files: bool = True
    in_memory: bool = False
    serve: service.Flags | None = None
    adapt: Callable[[tuple[TaskEntry, ...]], tuple[TaskEntry, ...]] = tuple
    max_nodes: int = sys.maxsize
    max_bytes: int = sys.maxsize

    def documents(self) -> tuple[Document, ...]:
        """Load the documents of the file. Raises InvalidFiles."""
        if self.in_memory:
            return read_yaml(self.stdin.read(), self.path)
        return validate.read_documents(self.path, self.stdin)


@dataclass(frozen=True)
class TaskFile:
    """A checked file: its tasks in order, with warnings and notes for the user.

    `id` is the id of the task, or of the pipeline or group.
    """

    entries: tuple[TaskEntry, ...]
    id: str
    given_id: bool  # whether the user chose it; a generated id cannot exist yet
    templates: Path | None
    warnings: tuple[Problem, ...]
    settings: Settings
    review: Review
    remarks: tuple[str, ...] = ()  # notes on how flags and context change the file
    max_bytes: int = sys.maxsize  # of the manifests

    @property
    def start_timeout(self) -> float:
        """Return the start timeout of the first node in seconds."""
        seconds = self.tasks[0].kubernetes.patience
        return _START_TIMEOUT if seconds is None else seconds

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks in order."""
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
        return manifests.merged(rendered)


def load(source: Source, ui: UI) -> TaskFile:
    """Read a file, apply flags and check it; report warnings and risky fields.

    Raises InvalidFiles with all problems.
    """
    overrides, environ = source.overrides, source.environ
    documents = apply_flags(source.documents(), overrides, environ)
    as_task = overrides.as_task
    settings = _settings(overrides, environ)
    problems = [
        problem
        for document in documents
        for problem in validate.document_problems(document, settings, as_task)
    ]
    remarks: list[str] = []
    if as_task:
        documents, remarks = as_tasks(documents)
    if source.strict:
        problems = [problem.as_error() for problem in problems]
    errors = [problem for problem in problems if problem.severity == "error"]
    refused = [] if errors else _refusals(documents, as_task, bool(source.serve))
    if not (errors or source.local_files):
        refused += validate.local_paths(documents)
    path = source.path if source.local_files else None
    reviewed = review(path, documents, settings, environ, overrides)
    if errors or refused or reviewed.refused:
        raise InvalidFiles([*errors, *refused, *reviewed.refused])
    file_id = _checked_id(overrides.task_id) or new_id()
    limits = Limits(settings.max_files, settings.max_gib)
    entries = served(entries_of(documents, file_id, overrides), source.serve, overrides, settings)
    _check_plannable(entries, settings, source.max_nodes)
    packer = Packer(ui.transfer if source.local_files else None, cache(environ), limits)
    entries = pack_files(source.adapt(entries), packer)
    reviewed = apply_settings((*reviewed.dangers, *packer.dangers), settings, environ)
    if reviewed.refused:
        raise InvalidFiles(reviewed.refused)
    ui.problems(problems)
    ui.review(reviewed.reported)
    return TaskFile(
        entries=entries,
        id=file_id,
        given_id=overrides.task_id is not None,
        templates=Path(overrides.templates) if overrides.templates else None,
        warnings=tuple(problems),
        settings=settings,
        review=reviewed,
        remarks=tuple(remarks),
        max_bytes=source.max_bytes,
    )


def load_all(sources: Sequence[Source], ui: UI) -> list[TaskFile]:
    """Read and check several files. Raises InvalidFiles with the problems of all of them."""
    task_files, problems = [], list[Problem]()
    for source in sources:
        try:
            task_files.append(load(source, ui))
        except InvalidFiles as error:
            problems += error.problems
    if problems:
        raise InvalidFiles(problems)
    return task_files


def as_tasks(documents: Sequence[Document]) -> tuple[list[Document], list[str]]:
    """Return services and pools as tasks, with notes; tasks are returned unchanged."""
    converted = [unsupported.as_task(document) for document in documents]
    return [document for document, _ in converted], [
        note for _, notes in converted for note in notes
    ]


def _refusals(documents: Sequence[Document], as_task: bool, served: bool) -> list[Problem]:
    return [
        problem
        for document in documents
        if not document.is_header
        for problem in (*unsupported.refusals(document, as_task, served), *_unset_values(document))
    ]


def served(
    entries: tuple[TaskEntry, ...],
    flags: service.Flags | None,
    overrides: Overrides,
    settings: Settings,
) -> tuple[TaskEntry, ...]:
    """Return the task of a replica, if it is served. Raises UserError unless it is one service."""
    if flags is None:
        return entries
    if overrides.as_task or overrides.array or overrides.backend:
        flag = "as-task" if overrides.as_task else "array" if overrides.array else "backend"
        raise UserError(f"--{flag} does not apply to a service", "remove it")
    if len(entries) > 1:
        raise UserError(
            f"a service is one task, and the file has {len(entries)}", "put each into its own file"
        )
    (entry,) = entries
    if not entry.task.name:
        raise UserError("the service has no name", "set name in the file, or add --name NAME")
    spec = service.service_of(entry.document, flags, settings.qps_metric)
    return (replace(entry, task=as_replica(entry.task, spec)),)


def _check_plannable(entries: Sequence[TaskEntry], settings: Settings, max_nodes: int) -> None:
    """Raise InvalidFiles with everything that no plan is possible for.

    Raises UserError for too many nodes: each takes memory in a plan.
    """
    nodes = sum(entry.task.num_nodes for entry in entries)
    if nodes > max_nodes:
        raise UserError(f"{nodes:,} nodes in one request; the limit is {max_nodes:,}", _SPLIT)
    problems = [
        problem
        for entry in entries
        for problem in validate.refusals(entry.document, entry.task, settings)
    ]
    if problems:
        raise InvalidFiles(sorted(problems))


def _unset_values(document: Document) -> Iterator[Problem]:
    """Refuse values that neither the file nor the command line sets."""
    secret_values = without_kept(document.get("secrets"))
    sources = (("envs", "--env", document.get("envs")), ("secrets", "--secret", secret_values))
    for section, flag, values in sources:
        for name, value in entries(values):
            if value is None:
                hint = f"set it with {flag} {name}=…"
                yield document.problem((section, name), "the value is not set", hint)


def entries_of(
    documents: Sequence[Document], file_id: str, overrides: Overrides
) -> tuple[TaskEntry, ...]:
    """Return the tasks; as in SkyPilot, a header names its only task."""
    task_documents = [document for document in documents if not document.is_header]
    tasks = as_array([task_of(document) for document in task_documents], overrides.array)
    pipeline = pipeline_of(documents)
    if pipeline is None:
        header = documents[0].get("name") if documents[0].is_header else None
        task = tasks[0] if header is None else replace(tasks[0], name=str(header))
        return (TaskEntry(task_documents[0], task, file_id, token=_token()),)
    pipeline = replace(pipeline, name=overrides.name or pipeline.name)
    named_tasks = with_names(tasks, title_of(pipeline, file_id))
    positions = members(pipeline, file_id, named_tasks)
    return tuple(
        TaskEntry(document, task, names.part_id(file_id, position.stage), position, token=_token())
        for document, task, position in zip(task_documents, named_tasks, positions, strict=True)
    )


def _token() -> str:
    return secrets.token_urlsafe(32)


def pack_files(entries: Sequence[TaskEntry], packer: Packer) -> tuple[TaskEntry, ...]:
    """Pack the local files of the tasks. Raises InvalidFiles."""
    packed_entries = [
        replace(entry, archives=packer.pack(entry.document, entry.task.files)) for entry in entries
    ]
    if packer.problems:
        raise InvalidFiles(packer.problems)
    return tuple(packed_entries)


def cache(environ: Mapping[str, str]) -> Cache:
    """Return the cache of local files."""
    return Cache(Folder(cache_folder(environ), "files"))


def _settings(overrides: Overrides, environ: Mapping[str, str]) -> Settings:
    """Return the user's settings, overridden by the flags."""
    settings = preferences(environ)
    return (
        replace(settings, bucket_mode=overrides.bucket_mode) if overrides.bucket_mode else settings
    )


def new_id() -> str:
    """Generate an id of a task or volume: 8 characters, the first one a letter."""
    letters = [letter for letter in names.ID_ALPHABET if letter.isalpha()]
    rest = (secrets.choice(names.ID_ALPHABET) for _ in range(names.ID_LENGTH - 1))
    return secrets.choice(letters) + "".join(rest)


def _checked_id(task_id: str | None) -> str | None:
    if task_id is not None and not names.ID.fullmatch(task_id):
        raise UserError(
            f"--id {task_id}: an id has {names.ID_LENGTH} lower-case letters and digits,"
            " starting with a letter",
            "for example: --id train001",
        )
    return task_id


def as_array(tasks: Sequence[Task], text: str | None) -> list[Task]:
    """Turn the single task into an array if the flag is given. Raises UserError."""
    if text is None:
        return list(tasks)
    if len(tasks) > 1:
        raise UserError(
            f"--array {printable(text)} and {len(tasks)} tasks: an array runs one task many times",
            "put the task into a separate file",
        )
    return [_array(tasks[0], text)]


def _array(task: Task, text: str) -> Task:
    flag = f"--array {printable(text)}"
    try:
        numbers = array(text)
    except ValueError as error:
        raise UserError(f"{flag}: {error}") from None
    if task.num_nodes > 1:
        raise UserError(
            f"{flag} and num_nodes {task.num_nodes}: each task of an array runs on one node,"
            " because an index of a Job is one pod",
            "submit the task once per number instead",
        )
    if task.backend not in _COMPATIBLE_BACKENDS:
        raise UserError(
            f"{flag} and backend {task.backend}: arrays run as one Indexed Job",
            "remove the backend",
        )
    return runtime.exit_after_setup(replace(task, array=numbers, backend=Array.name))
