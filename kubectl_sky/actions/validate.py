"""`validate`: report all problems of all files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from kubectl_sky.actions import files, task_checks
from kubectl_sky.actions.preferences import preferences
from kubectl_sky.actions.review import Review, review
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.settings import Settings
from kubectl_sky.spec.document import Document


@dataclass(frozen=True)
class Report:
    """The problems of one file; if it has no errors, the differences to SkyPilot."""

    file: str
    problems: tuple[Problem, ...]
    review: Review = field(default_factory=Review)
    differences: tuple[Problem, ...] = ()

    @property
    def erroneous(self) -> bool:
        """Whether there is an error; SkyPilot's view is unknown then."""
        return any(problem.severity == "error" for problem in self.problems)


def check(
    paths: Sequence[str],
    stdin: BinaryIO,
    environ: Mapping[str, str],
    as_task: bool = False,
    compare: bool = False,
) -> list[Report]:
    """Return a report for each file, in order; an unreadable file is a problem too.

    `as_task` treats services and pools as tasks. `compare` adds the differences to SkyPilot.
    """
    settings = preferences(environ)
    reports = []
    for path in paths:
        problems, documents = _read(path, stdin, settings, as_task)
        reviewed = review(path, documents, settings, environ)
        differences = _differences(documents) if compare else ()
        reports.append(Report(path, (*problems, *reviewed.refused), reviewed, differences))
    return reports


def _read(
    path: str, stdin: BinaryIO, settings: Settings, as_task: bool
) -> tuple[tuple[Problem, ...], tuple[Document, ...]]:
    """Return the problems and the documents of a file; no documents if unreadable."""
    try:
        documents = files.documents(path, stdin)
    except InvalidFiles as error:
        return error.problems, ()
    problems: list[Problem] = []
    for document in documents:
        file_problems = task_checks.problems(document, settings, as_task)
        if not any(problem.severity == "error" for problem in file_problems):
            file_problems += task_checks.warnings(document, settings, as_task)
        problems += sorted(file_problems)
    return tuple(problems), documents


def _differences(documents: Sequence[Document]) -> tuple[Problem, ...]:
    from kubectl_sky.spec import compat  # noqa: PLC0415 -- its table takes time to load

    return tuple(
        difference for document in documents for difference in compat.differences(document)
    )
