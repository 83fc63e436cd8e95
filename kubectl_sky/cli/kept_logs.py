"""Read logs that a volume keeps, in a running pod or in one that the user agrees to start."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.cli import output
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.cli.volume_pods import Volumes
from kubectl_sky.errors import SkyError, TaskFailed, UnknownName, UserError
from kubectl_sky.words import names

if TYPE_CHECKING:
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.tasks.logs import LogRequest


class Reader(Volumes, frozen=True):
    """Read the logs of volumes."""

    def show_deleted(self, text: str | None, request: "LogRequest", ui: Terminal) -> bool:
        """Print the logs of a deleted task; return whether it is known where they are."""
        from kubectl_sky.tasks import evidence, history

        record = text and evidence.of_deleted_task(
            self.session, self.scope.namespace, self.scope.user, text
        )
        if record and record.logs:
            self._show(record, record.task_id, request, ui)
            return True
        task = history.find_deleted(self.session, self.scope, text)
        if task and task.logs:
            self._show(task, task.id, request, ui)
            return True
        return False

    @contextmanager
    def adding_lost(
        self, statuses: Sequence["TaskStatus"], request: "LogRequest", ui: Terminal
    ) -> Iterator[None]:
        """Print the logs of nodes whose pods are deleted after the others, or say where they are.

        Raises TaskFailed of the block then.
        """
        failure = None
        try:
            yield
        except TaskFailed as error:
            failure = error

        for task in statuses:
            lost = [node.index for node in task.nodes if node.state.ended and not node.started]
            lost = [rank for rank in lost if rank in (request.ranks or lost)]
            if task.logs and lost:
                try:
                    self._show(task, task.id, replace(request, ranks=lost), ui)
                except SkyError as error:  # the outcome of the task counts
                    if not (failure or isinstance(error, UserError)):
                        raise
                    output.note(f"{error.what}; {error.hint}" if error.hint else error.what)

        if failure:
            raise failure

    def _show(
        self, task: "TaskStatus | Evidence", task_id: str, request: "LogRequest", ui: Terminal
    ) -> None:
        from kubectl_sky.tasks import kept_logs

        claim, _, folder = task.logs.partition(":")
        name = names.task_object(names.dns_label(task.name), task_id)
        output.note(f'the log is on PVC "{claim}": {folder}/{name}')
        if request.options.since_seconds or request.options.since_time:
            output.note("--since does not apply: the lines of a volume have no times")
        of_task = replace(self, scope=replace(self.scope, namespace=task.namespace))
        with of_task.open(claim, folder) as pod:
            logs = [log for log in kept_logs.list_logs(pod) if log.task == name]
            if not kept_logs.show(pod, logs, request, ui):
                raise UnknownName(f'no log of {name} found in "{folder}" of PVC "{claim}"')
