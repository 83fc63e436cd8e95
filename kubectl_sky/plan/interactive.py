"""Tasks without `run`: after `setup`, their nodes stay up for `exec` and `port-forward`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kubectl_sky import names
from kubectl_sky.spec.task import Task

READY = b"kubectl-sky: this node is ready and runs until the task is stopped"
# Any sh and sleep can run this. SIGTERM ends it at once, because sleep replaces the shell.
_KEEP_RUNNING = f"echo '{READY.decode()}'\nexec sleep 2147483647\n"
_EXIT = ":\n"


def keep_running(task: Task) -> Task:
    """Return the task with a script that keeps its nodes up, if it has no run."""
    return task if task.run else replace(task, run=_KEEP_RUNNING)


def exit_after_setup(task: Task) -> Task:
    """Return the task with a run that ends at once, if it has none.

    The tasks of a pipeline, a group or an array end after setup: others wait for them.
    """
    return task if task.run else replace(task, run=_EXIT)


def annotations(task: Task) -> Mapping[str, str]:
    """Return the annotation that tells clients not to wait for the end of a staying task."""
    return {names.INTERACTIVE: "true"} if task.run == _KEEP_RUNNING else {}


def notes(task: Task) -> Iterator[str]:
    """Yield a note that the task does not end by itself."""
    if not task.run:
        yield "the task has no run: its nodes stay up until it is stopped"
