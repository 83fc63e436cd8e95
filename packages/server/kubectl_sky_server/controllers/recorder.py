"""Keep the last states of as many tasks of each namespace as the setting `history` says."""

import logging
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from threading import Lock

from msgspec.structs import replace

from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.errors import NotFound, SkyError
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, goodput, history
from kubectl_sky.words import age, kinds, names
from kubectl_sky.words.notice import Notice
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import STOPPED
from kubectl_sky_server.controllers.loop import Controller, Watch

_STOPPED = Notice("the task was stopped")
_SETTLE_SECONDS = 2.0  # the pod may tell more than its Job a moment later

_log = logging.getLogger(__name__)


def _without_containers(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, containers=()))


class Recorder(Controller[str]):
    """Record tasks that have finished or were stopped, with one request for all of a namespace."""

    watches = (
        *(Watch(kind, f"{names.TASK}=true") for kind in registry.KINDS),
        Watch(kinds.POD, f"{names.TASK}=true", _without_containers),
    )
    rest = 10.0

    def __init__(self, session: Session, limit: int) -> None:
        self._session = session
        self._limit = limit
        self._lock = Lock()
        # By namespace and task: its objects that were deleted, by name.
        self._pending: dict[str, dict[str, dict[str, Object]]] = defaultdict(dict)

    def changed(self, event: WatchEvent) -> tuple[str, float] | None:
        item = event.object
        is_deleted = event.type == Change.DELETED
        namespace, task_id = ownership.key(item)
        is_pod = event.kind is kinds.POD
        ended = is_deleted
        if isinstance(item, TaskObject):
            ended = ended or bool(registry.of(item).ended_at(item))
        if not (task_id and ended and (is_pod or registry.is_root_object(item))):
            return None
        self._add(namespace, {task_id: {item.metadata.name: item} if is_deleted else {}})
        return namespace, _SETTLE_SECONDS

    def _add(self, namespace: str, tasks: dict[str, dict[str, Object]]) -> None:
        with self._lock:
            pending = self._pending[namespace]
            for task_id, deleted in tasks.items():
                pending[task_id] = pending.pop(task_id, {}) | deleted
            while len(pending) > self._limit:
                del pending[next(iter(pending))]

    def process(self, namespace: str) -> None:
        with self._lock:
            pending = self._pending.pop(namespace, {})

        try:
            read = find.Read(find.with_ids(pending))
            tasks = find.list_tasks(self._session, find.Scope(namespace, None), read)
            existing = {task.id: task for task in tasks if task.id in pending}
            gone = [self._last(pending[key].values()) for key in pending.keys() - existing.keys()]
            finished = [task for task in (*existing.values(), *gone) if task and task.state.ended]
            count = history.record(
                self._session, namespace, finished, self._limit, self._with_goodput
            )
        except NotFound:  # the namespace was deleted
            return
        except SkyError:
            self._add(namespace, pending)
            raise

        unfinished = {task.id for task in tasks if not task.state.ended}
        self._add(namespace, {key: pending[key] for key in unfinished if pending.get(key)})
        if count:
            _log.info("%s: recorded %d finished tasks", namespace, count)
            self.did(f"recorded {count} finished tasks")

    def _with_goodput(self, task: TaskStatus) -> TaskStatus:
        """Return a task with what its time went into, if its log tells that.

        The `step_regex` of a file is left to clients: a stranger's could take for ever.
        """
        with suppress(SkyError):
            return task if task.step_regex else goodput.record(self._session, task)
        return task

    def _last(self, deleted: Collection[Object]) -> TaskStatus | None:
        """Return the last state of a deleted task; one that had not finished was stopped."""
        items = [item for item in deleted if isinstance(item, TaskObject)]
        pods = [item for item in deleted if isinstance(item, Pod)]
        now = age.timestamp(self._session.now())
        end = {"state": State.FAILED, "reason": STOPPED, "message": "", "pod": ""}
        for task in status.tasks(items, pods):
            nodes = (n if n.state.ended else replace(n, **end, ended_at=now) for n in task.nodes)
            changed_at = task.updated_at if task.state.ended else now
            notices = task.notices if task.state.ended else {STOPPED: _STOPPED}
            return replace(task, nodes=tuple(nodes), updated_at=changed_at, notices=notices)
        return None
