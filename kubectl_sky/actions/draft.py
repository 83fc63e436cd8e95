"""Read a task file and flags into checked tasks, for `render` and `submit`."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from kubectl_sky import names
from kubectl_sky.actions import arrays, files, settled
from kubectl_sky.actions.flags import overridden
from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.actions.packing import Packer, Progress
from kubectl_sky.actions.preferences import preferences
from kubectl_sky.actions.review import Review, judged, review
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.facts import Archive, Facts
from kubectl_sky.plan import queueing
from kubectl_sky.plan.explain import Origins, explained
from kubectl_sky.plan.pipeline import Member, members, named, title_of
from kubectl_sky.plan.plan import Plan
from kubectl_sky.private import Folder
from kubectl_sky.render import manifests
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.settings import Settings, cache_folder
from kubectl_sky.spec import unsupported
from kubectl_sky.spec.document import Document, FieldError, entries
from kubectl_sky.spec.pipeline import pipeline_of
from kubectl_sky.spec.secret import without_kept
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.sync.archive import Limits
from kubectl_sky.sync.known import NO_CACHE, Cache
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.decide import Decision, decide

_PATIENCE = 300.0


@dataclass(frozen=True)
class Part:
    """A checked task with its id, and its position in a pipeline or group.

    `document` is the source of the task. `archives` are its local files by target path. `token`
    authenticates its nodes to each other.
    """

    document: Document
    task: Task
    task_id: str
    member: Member | None = None
    archives: Mapping[str, Archive] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def backend(self, settings: Settings) -> str | None:
        """Return the requested backend, or `auto`; None if it is not set."""
        return self.task.backend or settings.backend

    def waits(self, settings: Settings) -> bool:
        """Return whether the task goes through a Kueue queue."""
        has_own_queue = self.backend(settings) in registry.OWN_QUEUES
        return not has_own_queue and bool(queueing.queue(self.task.kubernetes, settings))

    def decide(self, facts: Facts, settings: Settings) -> Decision:
        """Decide how the task runs. Raises UserError if no backend can run it."""
        task_facts = replace(facts, archives=self.archives, token=self.token)
        with self.located():
            return decide(self.task, self.task_id, task_facts, settings, self.member)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Add the position in the file to an error about a field."""
        try:
            yield
        except FieldError as error:
            raise InvalidFiles([self.document.locate(error)]) from error

    def explained(self, decision: Decision, plan: Plan, settings: Settings) -> Plan:
        """Annotate the plan with the origins of its values."""
        chosen = decision.placement.resources
        return explained(plan, Origins(self.document, chosen, settings))


@dataclass(frozen=True)
class Draft:
    """A checked file: its tasks in order, with warnings and notes for the user.

    `id` is the id of the task, or of the pipeline or group.
    """

    parts: tuple[Part, ...]
    id: str
    given_id: bool  # whether the user chose it; a generated id cannot exist yet
    templates: Path | None
    warnings: tuple[Problem, ...]
    settings: Settings
    review: Review
    remarks: tuple[str, ...] = ()  # notes on how flags and context change the file

    @property
    def patience(self) -> float:
        """Return the start timeout of the first node in seconds."""
        seconds = self.tasks[0].kubernetes.patience
        return _PATIENCE if seconds is None else seconds

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks in order."""
        return tuple(part.task for part in self.parts)

    def decide(self, facts: Facts) -> tuple[Decision, ...]:
        """Decide how each task runs."""
        return tuple(part.decide(facts, self.settings) for part in self.parts)

    def notes(self, decisions: Sequence[Decision]) -> tuple[str, ...]:
        """Return the notes for the user, without duplicates."""
        return (
            *self.remarks,
            *dict.fromkeys(note for decision in decisions for note in decision.notes),
        )

    def manifests(self, plans: Sequence[Plan]) -> Manifests:
        """Render the plans of this draft."""
        rendered = []
        for part, plan in zip(self.parts, plans, strict=True):
            with part.located():
                rendered.append(manifests.render(plan, self.templates))
        return manifests.merged(rendered)


def draft(
    path: str,
    overrides: Overrides,
    environ: Mapping[str, str],
    stdin: BinaryIO,
    strict: bool = False,
    progress: Progress | None = None,
) -> Draft:
    """Read a file, apply flags and check it; raise InvalidFiles with all problems.

    `strict` treats warnings as errors. `progress` shows how local files are packed. Without it,
    tasks with local files are refused: the caller may not be allowed to read them.
    """
    documents = overridden(files.documents(path, stdin), overrides, environ)
    as_task = overrides.as_task
    settings = _settings(overrides, environ)
    problems = [
        problem
        for document in documents
        for problem in settled.problems(document, settings, as_task)
    ]
    remarks: list[str] = []
    if as_task:
        documents, remarks = _as_tasks(documents)
    if strict:
        problems = [problem.as_error() for problem in problems]
    errors = [problem for problem in problems if problem.severity == "error"]
    refused = [] if errors else _refusals(documents, as_task)
    reviewed = review(path, documents, settings, environ, overrides)
    if errors or refused or reviewed.refused:
        raise InvalidFiles([*errors, *refused, *reviewed.refused])
    whole_id = _checked_id(overrides.task_id) or new_id()
    limits = Limits(settings.max_files, settings.max_gib)
    parts = _parts(documents, whole_id, overrides)
    _check_plannable(parts, settings)
    packer = Packer(progress, _cache(environ), limits)
    parts = packed(parts, packer)
    reviewed = judged((*reviewed.dangers, *packer.dangers), settings, environ)
    if reviewed.refused:
        raise InvalidFiles(reviewed.refused)
    return Draft(
        parts=parts,
        id=whole_id,
        given_id=overrides.task_id is not None,
        templates=Path(overrides.templates) if overrides.templates else None,
        warnings=tuple(problems),
        settings=settings,
        review=reviewed,
        remarks=tuple(remarks),
    )


def _as_tasks(documents: Sequence[Document]) -> tuple[list[Document], list[str]]:
    converted = [unsupported.as_task(document) for document in documents]
    return [document for document, _ in converted], [
        note for _, notes in converted for note in notes
    ]


def _refusals(documents: Sequence[Document], as_task: bool) -> list[Problem]:
    return [
        problem
        for document in documents
        if not document.is_header
        for problem in (*unsupported.refusals(document, as_task), *_open(document))
    ]


def _check_plannable(parts: Sequence[Part], settings: Settings) -> None:
    """Raise InvalidFiles with everything that no plan is possible for."""
    problems = [
        problem
        for part in parts
        for problem in settled.refusals(part.document, part.task, settings)
    ]
    if problems:
        raise InvalidFiles(sorted(problems))


def _open(document: Document) -> Iterator[Problem]:
    """Refuse values that neither the file nor the command line sets."""
    secret_values = without_kept(document.get("secrets"))
    sources = (("envs", "--env", document.get("envs")), ("secrets", "--secret", secret_values))
    for section, flag, values in sources:
        for name, value in entries(values):
            if value is None:
                hint = f"give it with {flag} {name}=…"
                yield document.problem((section, name), "the file leaves the value open", hint)


def _parts(documents: Sequence[Document], whole_id: str, overrides: Overrides) -> tuple[Part, ...]:
    """Return the tasks; as in SkyPilot, a header names its only task."""
    task_documents = [document for document in documents if not document.is_header]
    tasks = arrays.applied([task_of(document) for document in task_documents], overrides.array)
    pipeline = pipeline_of(documents)
    if pipeline is None:
        header = documents[0].get("name") if documents[0].is_header else None
        task = tasks[0] if header is None else replace(tasks[0], name=str(header))
        return (Part(task_documents[0], task, whole_id),)
    pipeline = replace(pipeline, name=overrides.name or pipeline.name)
    named_tasks = named(tasks, title_of(pipeline, whole_id))
    positions = members(pipeline, whole_id, named_tasks)
    return tuple(
        Part(document, task, names.part_id(whole_id, position.stage), position)
        for document, task, position in zip(task_documents, named_tasks, positions, strict=True)
    )


def packed(parts: Sequence[Part], packer: Packer) -> tuple[Part, ...]:
    """Pack the local files of the tasks. Raises InvalidFiles."""
    packed_parts = [
        replace(part, archives=packer.pack(part.document, part.task.files)) for part in parts
    ]
    if packer.problems:
        raise InvalidFiles(packer.problems)
    return tuple(packed_parts)


def _cache(environ: Mapping[str, str]) -> Cache:
    """Return the cache of local files; empty for a user without a home directory."""
    with suppress(RuntimeError):
        return Cache(Folder(cache_folder(environ), "files"))
    return NO_CACHE


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
            f"--id {task_id}: an id is {names.ID_LENGTH} small letters and digits, a letter first",
            "such as --id train001",
        )
    return task_id
