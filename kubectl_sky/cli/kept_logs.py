"""Read logs that a volume keeps, in a running pod or in one that the user agrees to start."""

import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import options, output
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import ClusterError, Forbidden, SkyError, TaskFailed, UnknownName, UserError
from kubectl_sky.words import names

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.tasks.find import Scope
    from kubectl_sky.tasks.kept_logs import LogPod
    from kubectl_sky.tasks.logs import LogRequest

_START_SECONDS = 300.0
_READER = {  # it ends by itself if this program is killed
    "name": "log-reader",
    "resources": {"cpus": "0.1+", "memory": "0.1+"},
    "run": "exec sleep 3600",
}


class Reader(Struct, frozen=True):
    """Read volumes of the namespace of the scope; `yes` starts a pod without asking."""

    session: "Session"
    cluster: options.ClusterFlags
    scope: "Scope"
    yes: bool

    @contextmanager
    def pod(self, claim: str, folder: str = "") -> Iterator["LogPod"]:
        """Yield a pod that mounts the folder of a PVC; one that was started is deleted again.

        Raises UserError if the user does not agree to start one.
        """
        from kubectl_sky.submitting import submit
        from kubectl_sky.submitting.overrides import Overrides
        from kubectl_sky.submitting.taskfile import Source
        from kubectl_sky.tasks import find, kept_logs, pipeline, stop
        from kubectl_sky.tasks.ui import Collected
        from kubectl_sky.tasks.watch import Until, Wait

        if pod := kept_logs.find_pod(self.session, self.scope, claim, folder):
            yield pod
            return
        if not self.yes:
            options.confirm(f'no running pod mounts PVC "{claim}": start one to read the logs?')
        stdin = io.BytesIO(json.dumps(_READER | {"volumes": {"/logs": claim}}).encode())
        source = Source("<logs>", Overrides(), os.environ, stdin, in_memory=True)
        connection = replace(self.cluster.flags(), namespace=self.scope.namespace)
        ui = Collected()
        submit.submit(submit.Options(source, connection, self.cluster.user, follow=False), ui)
        assert ui.result
        started = find.tasks_of(ui.result.target)
        try:
            wait = Wait(_START_SECONDS, Until.RUNNING)
            pipeline.wait_for_all(self.session, started, wait, Terminal())
            if not (pod := kept_logs.find_pod(self.session, self.scope, claim, folder)):
                raise ClusterError(f"task {started[0].id} ended before it was read")
            yield pod
        finally:
            stop.stop(self.session, started)

    def show_deleted(self, text: str | None, request: "LogRequest", ui: Terminal) -> bool:
        """Print the logs of a deleted task; return whether it is known where they are."""
        from kubectl_sky.tasks import evidence, history

        record = text and evidence.of_deleted_task(
            self.session, self.scope.namespace, self.scope.user, text
        )
        if record and record.logs:
            self._show(record, record.task_id, request, ui)
            return True
        deleted: Sequence[TaskStatus] = ()
        with suppress(Forbidden):
            deleted = history.read(self.session, self.scope).tasks
        task = next((task for task in deleted if task.logs and text in (task.id, task.name)), None)
        if task:
            self._show(task, task.id, request, ui)
        return task is not None

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
        claim, _, folder = task.logs.partition(":")
        name = names.task_object(names.dns_label(task.name), task_id)
        output.note(f'the log is on PVC "{claim}": {folder}/{name}')
        if request.options.since_seconds or request.options.since_time:
            output.note("--since does not apply: the lines of a volume have no times")
        of_task = replace(self, scope=replace(self.scope, namespace=task.namespace))
        with of_task.pod(claim, folder) as pod:
            logs = [log for log in pod.list_logs() if log.task == name]
            if not pod.show(logs, request, ui):
                raise UnknownName(f'no log of {name} found in "{folder}" of PVC "{claim}"')
