"""The tasks controller: it leads what no client follows, and deletes what is kept no longer."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.tasks import clean, find, stop
from kubectl_sky.tasks.find import TaskNotFound, tasks_of
from kubectl_sky.tasks.pipeline import lead, needs_action
from kubectl_sky.words import kinds, names
from kubectl_sky.words.objects import Object
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry
from kubectl_sky_server.controllers.loop import Context, Controller, Watch
from kubectl_sky_server.controllers.notifier import Notifier
from kubectl_sky_server.controllers.recorder import Recorder
from kubectl_sky_server.controllers.task_index import (
    KeptPod,
    Key,
    TaskIndex,
    key_of_task,
    with_what_keeps_it,
    without_unused_fields,
)

_SETTLE_SECONDS = 2.0  # objects of one task are neither created nor deleted at the same time
_SWEEP_SECONDS = 600.0
_DELETION = "deletion of finished tasks"

_log = logging.getLogger(__name__)


def controllers(context: Context) -> Sequence[Controller[Any]]:
    session = context.session
    controllers = list[Controller[Any]]()
    if url := context.settings.notify:
        controllers.append(Notifier(session, url))
    if limit := context.settings.history:
        controllers.append(Recorder(session, limit))
    if context.retention is not None:
        controllers.append(Sweeper(session, context.namespace, context.retention))
    return [TasksController(session, context.settings.lost_after), *controllers]


class TasksController(Controller[Key]):
    """Index the workloads of all backends, and lead a task or pipeline when something is due.

    Of pods, only those are of interest that other containers keep after `main` has ended, or that
    lost cluster nodes keep.
    """

    watches = (
        *(Watch(kind, f"{names.TASK}=true", without_unused_fields) for kind in registry.KINDS),
        Watch(kinds.POD, f"{names.TASK}=true", with_what_keeps_it),
    )

    def __init__(self, session: Session, node_lost_after: timedelta | None) -> None:
        self._session = session
        self._node_lost_after = node_lost_after
        self._index = TaskIndex()

    def changed(self, event: WatchEvent) -> tuple[Key, float] | None:
        item = event.object
        if event.kind is kinds.POD:
            return self._pod_changed(item)
        assert isinstance(item, TaskObject)
        key = self._index.apply(item, deleted=event.type == Change.DELETED)
        if registry.of(item).ended_at(item):
            labels = item.metadata.labels
            task = key_of_task(item)
            ids = [labels.get(names.TASK_ID, ""), labels.get(names.PIPELINE, "")]
            if task and self._index.list_waiting(task.namespace, ids):
                return task, 0.0
        if not key or not self._index.needs_action(key):
            return None
        delay = _SETTLE_SECONDS if self._index.lacks_nodes(key) else 0.0
        return key, delay

    def _pod_changed(self, pod: Object) -> tuple[Key, float] | None:
        key = key_of_task(pod)
        if not key or not isinstance(pod, KeptPod) or not (pod.kept_by or pod.is_stuck):
            return None
        delay = stop.KEPT_SECONDS if pod.kept_by else 0.0
        return key, delay

    def process(self, key: Key) -> float | None:
        uids = self._index.uids(key)
        try:
            target = find.get_by_label(self._session, *key)
        except TaskNotFound:  # it was deleted while its watch was refused
            self._index.forget(key, uids)
            return None

        ended = [item.id for item in (target, *tasks_of(target)) if item.state.ended]
        for waiting in self._index.list_waiting(key.namespace, ended):
            self.process(waiting)
        if not needs_action(target):
            return None

        led = lead(self._session, target, self._session.now(), self._node_lost_after)
        for step in led.steps:
            _log.info("%s: %s", target.namespace, step)
            self.did(step)
        return led.seconds


class Sweeper(Controller[str]):
    """Delete finished tasks after their retention, as `clean --older-than` does."""

    first = (_DELETION,)

    def __init__(self, session: Session, namespace: str | None, retention: timedelta) -> None:
        self._session = session
        self._scope = find.Scope(namespace, None)
        self._retention = retention

    def process(self, key: str) -> float:
        deleted = clean.list_finished(self._session, self._scope, self._retention)
        if deleted:
            stop.stop(self._session, deleted)
            _log.info("%d finished tasks deleted", len(deleted))
            self.did(f"deleted {len(deleted)} finished tasks")
        return _SWEEP_SECONDS
