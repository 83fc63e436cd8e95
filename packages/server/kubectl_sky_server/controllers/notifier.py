"""Tell the URL of the setting `notify` of each task and pipeline that finishes."""

import logging

from kubectl_sky.actions import notify
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.tasks import find
from kubectl_sky.words import names
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry
from kubectl_sky_server.controllers.loop import Controller, Watch
from kubectl_sky_server.controllers.task_index import Key, key_of_task, without_unused_fields

_SETTLE_SECONDS = 2.0  # the pod may tell more than its Job a moment later

_log = logging.getLogger(__name__)


class Notifier(Controller[Key]):
    """Send what `wait --notify` sends, about what was seen unfinished."""

    watches = tuple(
        Watch(kind, f"{names.TASK}=true", without_unused_fields) for kind in registry.KINDS
    )

    def __init__(self, session: Session, url: str) -> None:
        try:
            notify.check(url)
        except ValueError as error:
            raise UserError(f"notify in the settings: {error}") from None
        self._session = session
        self._url = url
        self._unfinished = set[Key]()

    def changed(self, event: WatchEvent) -> tuple[Key, float] | None:
        item = event.object
        assert isinstance(item, TaskObject)
        key = key_of_task(item) if registry.is_root_object(item) else None
        if key is None or event.type == Change.DELETED:
            return None
        if not registry.of(item).ended_at(item):
            self._unfinished.add(key)
        elif key in self._unfinished:
            return key, _SETTLE_SECONDS
        return None

    def process(self, key: Key) -> None:
        try:
            target = find.get_by_label(self._session, *key)
        except find.TaskNotFound:
            self._unfinished.discard(key)
            return
        if key not in self._unfinished or not target.state.ended:
            return
        if problem := notify.send(self._url, notify.describe_finished([target])):
            raise ClusterError(problem)
        self._unfinished.discard(key)
        _log.info("%s: sent a notification", key)
        self.did("sent a notification")
