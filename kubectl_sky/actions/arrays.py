"""`--array`: run one task once for each index."""

from collections.abc import Sequence
from dataclasses import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan import runtime
from kubectl_sky.spec.arrays import array
from kubectl_sky.spec.document import printable
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads.arrays import Array
from kubectl_sky.workloads.choice import AUTO

_COMPATIBLE_BACKENDS = (None, AUTO, "indexed")  # backends that are compatible with an array


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
