"""`validate`: report everything that submit would refuse, without a cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Annotated, BinaryIO, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kubectl_sky.actions import skypilot_settings
from kubectl_sky.actions.config import preferences
from kubectl_sky.actions.documents import read_documents
from kubectl_sky.errors import InvalidFiles, Problem, SkyError, UserError
from kubectl_sky.spec import service
from kubectl_sky.spec.dangers import Danger, RiskyField, list_first
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import PartlyRead
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.submitting import packing
from kubectl_sky.submitting.check import (
    Review,
    apply_settings,
    as_service,
    as_tasks,
    document_problems,
    document_refusals,
    find_valid_parts,
    local_paths,
    of_documents,
    review,
    unset_flags,
)
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.packing import find_known_files
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import names, owners
from kubectl_sky.words.documents import Document as JsonDocument
from kubectl_sky.words.documents import Note
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.decide import TaskEntry, decide

# Whether local files have to exist, are problems, or do not matter.
LocalFilesUse = Literal["read", "refuse", "skip"]


_TOPOLOGY = "topology: by the scheduler or Kueue if they can, else best effort; --live says which"


class Validation(JsonDocument, frozen=True, kw_only=True):
    """The problems of files: `validate`, `POST /validate`, `Validation.as_json()`."""

    valid: bool
    problems: Sequence[Problem]
    dangers: list[RiskyField]
    notes: Annotated[Sequence[str] | UnsetType, Note("of `--live`")] = UNSET


class Report(Struct, frozen=True):
    """The problems of one file.

    `remarks` are the flags that submit needs, and the settings of SkyPilot that are not read.
    `document_notes` say what the settings make of a batch script.
    `task_file` has the tasks of a file without errors. It is None if they cannot be planned yet,
    for the reason `unplanned`.
    """

    file: str
    problems: tuple[Problem, ...]
    review: Review
    remarks: tuple[str, ...] = ()
    document_notes: tuple[str, ...] = ()
    task_file: TaskFile | None = None
    unplanned: str = ""

    @property
    def erroneous(self) -> bool:
        return _has_error(self.problems)

    @property
    def notes(self) -> Iterator[Danger | str]:
        """Yield the dangers of fields without errors that settings do not refuse, and others."""
        errors = {(item.document, item.path) for item in self.problems if item.severity == "error"}
        yield from list_first(
            [
                danger
                for danger in self.review.reported
                if (danger.problem.document, danger.problem.path) not in errors
            ]
        )
        yield from self.document_notes
        yield from (f"{self.file}: {remark}" for remark in self.remarks)

    def with_problems(self, problems: Iterable[Problem]) -> "Report":
        return replace(self, problems=(*self.problems, *problems))


def check(
    paths: Sequence[str],
    stdin: BinaryIO,
    environ: Mapping[str, str],
    as_task: bool = False,
    local_files: LocalFilesUse = "read",
) -> list[Report]:
    """Return a report for each file, in order; an unreadable file is a problem too.

    `as_task` treats services and pools as tasks.
    """
    preferred = preferences(environ)
    reads_files = local_files == "read"
    unread = skypilot_settings.read(environ) if reads_files else {}
    reports = []

    for path in paths:
        settings = preferred
        problems, documents = _read(path, stdin, settings, as_task, scripts=local_files != "refuse")
        if reads_files:
            settings = skypilot_settings.add_nebius(settings, documents, environ)
        parts = find_valid_parts(documents, as_task) if _has_error(problems) else documents

        refused = _list_refused(parts, settings, as_task)
        if reads_files and (refused or _has_error(problems)):
            refused += packing.unsendable(parts, settings, environ)
        if local_files == "refuse":
            refused += local_paths(parts)

        fields = {(problem.document, problem.path) for problem in refused}
        problems = [  # a field that is refused has a warning, too
            item
            for item in problems
            if item.severity == "error" or (item.document, item.path) not in fields
        ]

        problems = sorted({*problems, *refused})
        read_from = path if reads_files else None
        reviewed = review(read_from, documents, settings, environ)

        remarks = list(skypilot_settings.find_unread(documents, unread))
        if any(document.get("config", "kubectl_sky", "topology") for document in documents):
            remarks.append(_TOPOLOGY)
        flags = (flag for document in documents for _, flag in unset_flags(document))
        if needed := " ".join(dict.fromkeys(flags)):
            remarks.append(f"submit needs {needed}")

        notes = tuple(note for document in documents for note in document.notes)
        report = Report(path, (*problems, *reviewed.refused), reviewed, tuple(remarks), notes)
        if not report.erroneous:
            report = _plan(report, documents, settings, environ, as_task, reads_files)
        reports.append(report)
    return reports


def undecidable(entries: Sequence[TaskEntry], settings: Settings) -> Iterator[Problem]:
    """Yield why no cluster can run the tasks: a backend that does not fit, scripts too large."""
    facts = Facts(user=owners.name_owner("user"), namespace="")  # whose user it is changes nothing
    for entry in entries:
        try:
            decide([entry], facts, settings)
        except InvalidFiles as error:
            yield from error.problems
        except SkyError as error:
            yield _whole_file(entry.document, error)


def _has_error(problems: Sequence[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def _whole_file(document: Document, error: SkyError) -> Problem:
    return Problem(document.file, 0, 0, "", error.what, error.hint)


def _read(
    path: str, stdin: BinaryIO, settings: Settings, as_task: bool, *, scripts: bool
) -> tuple[Sequence[Problem], Sequence[Document]]:
    unread: Sequence[Problem] = ()
    try:
        documents = read_documents(path, stdin)
    except PartlyRead as error:
        unread = error.problems
        documents = tuple(error.documents)
    except InvalidFiles as error:
        return error.problems, ()
    problems = (document_problems(item, settings, as_task, scripts=scripts) for item in documents)
    return [*unread, *chain.from_iterable(problems)], documents


def _list_refused(
    documents: Sequence[Document], settings: Settings, as_task: bool
) -> list[Problem]:
    problems = []
    for document in documents:
        serve = None if as_task or document.get("service") is None else service.Flags()
        if not document.is_volume:
            problems += document_refusals(document, settings, as_task, serve)
    return problems


def _plan(
    report: Report,
    documents: Sequence[Document],
    settings: Settings,
    environ: Mapping[str, str],
    as_task: bool,
    reads_files: bool,
) -> Report:
    """Plan the tasks of valid documents as submit does, without the values that are not set."""
    if any(document.is_volume for document in documents):
        return replace(report, unplanned="it is a volume")

    if as_task:
        documents, _ = as_tasks(documents)

    try:
        entries = of_documents(documents, names.new_id(), Overrides())
        is_task = as_task or all(document.get("service") is None for document in documents)
        serve = None if is_task else service.Flags()
        entries = as_service(entries, serve, Overrides(), settings)
    except UserError as error:
        return report.with_problems([_whole_file(documents[0], error)])

    if not reads_files and any(entry.task.files for entry in entries):
        return replace(report, unplanned="its local files are not read")

    packer = packing.packer(UI().transfer, settings, environ, check_only=True)
    filled = [Filled(entry.document) for entry in entries]
    is_known = [not item.unknown for item in filled]
    entries = tuple(
        replace(
            entry, archives=packer.pack(entry.document, find_known_files(item, entry.task.files))
        )
        for entry, item in zip(entries, filled, strict=True)
    )

    reviewed = apply_settings((*report.review.dangers, *packer.dangers), settings, environ)
    problems = [*packer.problems, *reviewed.refused]
    if not packer.problems:
        problems += undecidable(list(compress(entries, is_known)), settings)
    remarks = (*report.remarks, *packer.notes)
    report = replace(report, review=reviewed, remarks=remarks).with_problems(problems)

    if problems or not all(is_known):
        return replace(report, unplanned="some values are not set")
    if entries[0].task.service:
        return replace(report, unplanned="it is a service")

    task_file = TaskFile(
        entries=entries,
        id=names.new_id(),
        given_id=False,
        templates=None,
        warnings=(),
        settings=settings,
    )
    return replace(report, task_file=task_file)
