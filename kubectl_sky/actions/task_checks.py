"""Check documents against the user's settings."""

from dataclasses import replace

from kubectl_sky.errors import Problem
from kubectl_sky.plan.resolve import find_refusals
from kubectl_sky.settings import DEFAULT_IMAGE, Settings
from kubectl_sky.spec import programs, unsupported
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.spec.validate import validate


def problems(document: Document, settings: Settings, as_task: bool = False) -> list[Problem]:
    """Return the problems of a document, with a warning for programs that its image lacks."""
    file_problems = validate(document, as_task=as_task)
    if settings.image or settings.defaults:  # the image of the settings may have the programs
        return file_problems
    warning = programs.missing(document, DEFAULT_IMAGE)
    return sorted([*file_problems, warning]) if warning else file_problems


def warnings(document: Document, settings: Settings, as_task: bool = False) -> list[Problem]:
    """Return a warning for each field of a valid document that submit refuses.

    Fields that are not supported are reported by `problems`.
    """
    if document.is_header or document.is_volume or unsupported.refusals(document, as_task):
        return []
    return [
        replace(problem, message=f"submit refuses it: {problem.message}", severity="warning")
        for problem in refusals(document, task_of(document), settings)
    ]


def refusals(document: Document, task: Task, settings: Settings) -> list[Problem]:
    """Return an error for each field of a task that no plan is possible for."""
    return [document.locate(error) for error in find_refusals(task, settings)]
