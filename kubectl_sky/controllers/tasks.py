"""kopf handlers of the tasks controller: it leads what no client follows."""

import asyncio
import logging
from collections import defaultdict
from datetime import timedelta

import kopf

from kubectl_sky.actions import find, stop
from kubectl_sky.actions.find import TaskNotFound
from kubectl_sky.actions.lead import lead, needs_action
from kubectl_sky.cluster import backoff
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.controllers.context import Context
from kubectl_sky.controllers.task_index import Key, TaskIndex
from kubectl_sky.controllers.work_queue import WorkQueue
from kubectl_sky.errors import SkyError
from kubectl_sky.observe.pipelines import finished_before
from kubectl_sky.words import names
from kubectl_sky.workloads import registry as backends

_SETTLE_SECONDS = 2.0  # objects of one task are neither created nor deleted at the same time
_FIRST_RETRY_SECONDS = 2.0
_MAX_RETRY_SECONDS = 300.0
_SWEEP_SECONDS = 600.0

_log = logging.getLogger(__name__)


def register(registry: kopf.OperatorRegistry, context: Context) -> None:
    """Watch the workloads of all backends, selected by label on the server."""
    controller = TasksController(context.session)
    if context.retention is not None:
        sweeper = Sweeper(context.session, context.namespace, context.retention)
        kopf.on.startup(registry=registry)(sweeper.start)
        kopf.on.cleanup(registry=registry)(sweeper.stop)
    for kind in backends.KINDS:
        resource = (kind.group, kind.version, kind.plural)
        context.operator.watching.label_selectors[resource] = f"{names.TASK}=true"
        kopf.on.event(*resource, registry=registry)(controller.changed)


class TasksController:
    """Index the workloads, and lead a task or pipeline when something is due."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = TaskIndex()
        self._failures: dict[Key, int] = defaultdict(int)
        self._queue: WorkQueue[Key] | None = None

    async def changed(self, event: kopf.RawEvent, **_: object) -> None:
        """Take note of a change."""
        item: Json = dict(event["object"])
        key = self._index.apply(item, deleted=event["type"] == "DELETED")
        if key and self._index.needs_action(key):
            self._queue = self._queue or WorkQueue(self._lead)
            self._queue.add(key, _SETTLE_SECONDS if self._index.lacks_nodes(key) else 0.0)

    async def _lead(self, key: Key) -> float | None:
        """Lead a task or pipeline one step; return in how many seconds to do so again."""
        uids, seconds = self._index.uids(key), None
        try:
            seconds = await asyncio.to_thread(self._step, key)
        except TaskNotFound:  # kopf does not report what was deleted while its watch was lost
            self._index.forget(key, uids)
            self._failures.pop(key, None)
        except SkyError as error:
            self._failures[key] += 1
            failures = self._failures[key]
            seconds = backoff.delay(failures, _FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS)
            _log.warning("%s %s/%s: %s", key.label, key.namespace, key.id, error)
        else:
            self._failures.pop(key, None)
        return seconds

    def _step(self, key: Key) -> float | None:
        """Read the current state, for the index may be old, and do what is due.

        Raises TaskNotFound.
        """
        target = find.get_by_label(self._session, *key)
        if not needs_action(target):
            return None
        seconds = lead(self._session, target, self._session.now())
        _log.info("%s %s/%s: led one step", key.label, key.namespace, key.id)
        return seconds


class Sweeper:
    """Delete finished tasks after their retention, as `clean --older-than` does."""

    def __init__(self, session: Session, namespace: str | None, retention: timedelta) -> None:
        self._session = session
        self._scope = find.Scope(namespace, None)
        self._retention = retention
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self, **_: object) -> None:
        """Sweep now and then."""
        self._sweeping = asyncio.create_task(self._sweep_forever())

    async def stop(self, **_: object) -> None:
        """Stop between two sweeps."""
        if self._sweeping:
            self._sweeping.cancel()

    async def _sweep_forever(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.sweep)
            except SkyError as error:
                _log.warning("cannot delete finished tasks: %s", error)
            except Exception:  # noqa: BLE001 - one task must not end the sweeps
                _log.exception("cannot delete finished tasks: internal error")
            await asyncio.sleep(_SWEEP_SECONDS)

    def sweep(self) -> None:
        """Delete the tasks that finished long ago. Raises SkyError."""
        tasks = find.list_tasks(self._session, self._scope)  # its answer tells the server's time
        cutoff = (self._session.now() - self._retention).strftime("%Y-%m-%dT%H:%M:%SZ")
        tasks = finished_before(tasks, cutoff)
        deleted = [task for task in tasks if not task.rivals]
        if deleted:
            stop.stop(self._session, deleted)
            _log.info("%d finished tasks deleted", len(deleted))
