"""From a file and flags to a checked task: what `render` and `submit` share."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from kubectl_sky import names
from kubectl_sky.actions import files
from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.actions.preferences import preferences
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.facts import Facts
from kubectl_sky.plan.notes import notes
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.resolve import resolve
from kubectl_sky.render import manifests
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.settings import Settings
from kubectl_sky.spec import unsupported
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.spec.validate import validate
from kubectl_sky.workloads.choice import Choice, choices


@dataclass(frozen=True)
class Draft:
    """A checked task with the id that it will have, and what the user should know about it.

    `document` is what the task was read from.
    """

    document: Document
    task: Task
    task_id: str
    given_id: bool  # whether the user chose it; a fresh one cannot be taken
    templates: Path | None
    warnings: tuple[Problem, ...]
    settings: Settings
    remarks: tuple[str, ...] = ()  # on what the flags make of the file

    def plan(self, facts: Facts) -> Plan:
        """Decide everything that was left open. Raises UserError where no backend can do it."""
        return self._decided(facts)[0]

    def notes(self, facts: Facts) -> tuple[str, ...]:
        """Say what the user should know about what was decided."""
        chosen = self._decided(facts)[1].note
        found = (*self.remarks, *notes(self.task, facts, self.settings), chosen)
        return tuple(filter(None, found))

    @property
    def backend(self) -> str | None:
        """The backend that was asked for, or `auto`."""
        return self.task.backend or self.settings.backend

    def _decided(self, facts: Facts) -> tuple[Plan, Choice]:
        reason = ""
        for choice in choices(self.backend, self.task.num_nodes, facts.access):
            name = choice.backend.name
            task = replace(self.task, backend=name)
            plan = resolve(task, self.task_id, facts, self.settings)
            reason = choice.backend.fits(plan, facts)
            if not reason:
                return plan, choice
        raise UserError(f"backend {name} cannot run this task: {reason}")

    def manifests(self, plan: Plan) -> Manifests:
        """Render the plan of this draft."""
        return manifests.render(plan, self.templates)


def draft(
    path: str,
    overrides: Overrides,
    environ: Mapping[str, str],
    stdin: BinaryIO,
    strict: bool = False,
) -> Draft:
    """Read, override and check a task; raise InvalidFiles with everything that is wrong.

    `strict` takes warnings for errors.
    """
    loaded = files.documents(path, stdin)
    document = _overridden(loaded[-1], overrides, environ)
    as_task = overrides.as_task
    problems = [found for other in loaded[:-1] for found in validate(other, as_task=as_task)]
    problems += validate(document, as_task=as_task)
    remarks: list[str] = []
    if as_task:
        document, remarks = unsupported.as_task(document)
    errors = [problem for problem in problems if problem.severity == "error"]
    refused = [] if errors else unsupported.refusals(document, as_task)
    if errors or refused or (strict and problems):
        raise InvalidFiles([*(problems if strict else errors), *refused])
    return Draft(
        document=document,
        task=task_of(document),
        task_id=_checked_id(overrides.task_id) or new_id(),
        given_id=overrides.task_id is not None,
        templates=Path(overrides.templates) if overrides.templates else None,
        warnings=tuple(problems),
        settings=preferences(environ),
        remarks=tuple(remarks),
    )


def new_id() -> str:
    """Return a fresh id of a task or volume: 8 characters that begin with a letter."""
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


def _overridden(document: Document, overrides: Overrides, environ: Mapping[str, str]) -> Document:
    """Put the flags' values into the document, so that they are checked like its own."""
    fields: dict[str, tuple[tuple[str, ...], object]] = {
        "--name": (("name",), overrides.name),
        "--num-nodes": (("num_nodes",), _number(overrides.num_nodes)),
        "--cpus": (("resources", "cpus"), overrides.cpus),
        "--memory": (("resources", "memory"), overrides.memory),
        "--gpus": (("resources", "accelerators"), overrides.gpus),
        "--image": (("resources", "image_id"), overrides.image),
        "--backend": (("config", "kubectl_sky", "backend"), overrides.backend),
    }
    for flag, (field, value) in fields.items():
        if value is not None:
            document = document.override(field, value, flag)
    for name, value in files.variable_files(overrides.env_files):
        secret = name in _keys(document, "secrets")
        document = document.override(("secrets" if secret else "envs", name), value, "--env-file")
    for name, value in files.variables(overrides.env, "--env", environ):
        document = document.override(("envs", name), value, "--env")
    for name, value in files.variables(overrides.secret, "--secret", environ):
        document = document.override(("secrets", name), value, "--secret")
    return document


def _number(text: str | None) -> object:
    """A whole number as such; anything else as it is, for the schema to refuse."""
    return int(text) if text is not None and text.isdecimal() else text


def _keys(document: Document, field: str) -> Mapping[str, object]:
    value = document.data.get(field)
    return value if isinstance(value, Mapping) else {}
