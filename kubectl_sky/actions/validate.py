"""`validate`: every problem of every file."""

from collections.abc import Sequence
from typing import BinaryIO

from kubectl_sky.actions import files
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.validate import validate
from kubectl_sky.values import dataclass


@dataclass(frozen=True)
class Report:
    """What is wrong in one file, and why SkyPilot would refuse it where nothing is."""

    file: str
    problems: tuple[Problem, ...]
    differences: tuple[Problem, ...] = ()

    @property
    def erroneous(self) -> bool:
        """Whether there is an error; SkyPilot's view is not known then."""
        return any(problem.severity == "error" for problem in self.problems)


def check(
    paths: Sequence[str], stdin: BinaryIO, as_task: bool = False, compare: bool = False
) -> list[Report]:
    """Return a report of each file, in order; an unreadable file is a problem too.

    `as_task` says that services and pools are to be run as tasks, `compare` that SkyPilot's view is
    wanted too.
    """
    return [_report(path, stdin, as_task, compare) for path in paths]


def _report(path: str, stdin: BinaryIO, as_task: bool, compare: bool) -> Report:
    try:
        documents = files.documents(path, stdin)
    except InvalidFiles as error:
        return Report(path, error.problems)
    return Report(
        path,
        tuple(problem for document in documents for problem in validate(document, as_task=as_task)),
        _differences(documents) if compare else (),
    )


def _differences(documents: Sequence[Document]) -> tuple[Problem, ...]:
    from kubectl_sky.spec import compat  # noqa: PLC0415 -- its table takes time to load

    return tuple(found for document in documents for found in compat.differences(document))
