"""The tasks of checked documents: ids, arrays, services and development pods."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from kubectl_sky.actions.flags import Overrides
from kubectl_sky.errors import UserError
from kubectl_sky.plan import runtime
from kubectl_sky.plan.pipeline import members, title_of, with_names
from kubectl_sky.spec import service, unsupported
from kubectl_sky.spec.document import Document, printable
from kubectl_sky.spec.pipeline import parse_array, pipeline_of
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.words import names
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.arrays import ArrayJob
from kubectl_sky.workloads.decide import AUTO, TaskEntry
from kubectl_sky.workloads.service import as_replica

_COMPATIBLE_BACKENDS = (None, AUTO, "indexed")  # backends that are compatible with an array


def as_tasks(documents: Sequence[Document]) -> tuple[list[Document], list[str]]:
    """Return services and pools as tasks, with notes; tasks are returned unchanged."""
    converted = [unsupported.as_task(document) for document in documents]
    return [document for document, _ in converted], [
        note for _, notes in converted for note in notes
    ]


def of_documents(
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
        numbers = parse_array(text)
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
    return runtime.exit_after_setup(replace(task, array=numbers, backend=ArrayJob.name))


def as_service(
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
    name = entry.task.name
    if not name and not flags.new:
        hint = "add --name NAME, which `kubectl sky serve status` shows"
        raise UserError("the service has no name", hint)
    spec = service.service_of(entry.document, flags, settings.qps_metric)
    task = replace(entry.task, name=name or f"service-{entry.task_id}")
    return (replace(entry, task=as_replica(task, spec)),)
