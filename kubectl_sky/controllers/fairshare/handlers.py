"""kopf handlers of the fairshare controller: they only wake its loop."""

import asyncio
import logging
from threading import Thread
from typing import Any

import kopf

from kubectl_sky.cluster import parallel
from kubectl_sky.controllers.context import Context
from kubectl_sky.controllers.fairshare.loop import Loop
from kubectl_sky.controllers.fairshare.policy import policies
from kubectl_sky.controllers.fairshare.state import LABEL, PodGroup
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind

_LOG = logging.getLogger(__name__)
_MAX_KNOWN = 100_000  # PodGroups


def register(registry: kopf.OperatorRegistry, context: Context) -> None:
    """Add the handlers of this controller. Raises UserError for an invalid policy."""
    if not context.settings.fair_share:
        _LOG.info("fairshare is off: the settings name no queues")
        return
    if context.namespace is not None:
        _LOG.warning("fairshare is off: PriorityClasses need a controller for all namespaces (-A)")
        return
    handlers = _Handlers(Loop(context.session, policies(context.settings)))
    kopf.on.startup(registry=registry)(handlers.start)
    kopf.on.cleanup(registry=registry)(handlers.stop)
    kopf.on.event(*_resource(kinds.POD_GROUP), registry=registry)(handlers.on_group)
    labels: dict[str, Any] = {LABEL: kopf.PRESENT}
    on_class = kopf.on.event(*_resource(kinds.PRIORITY_CLASS), labels=labels, registry=registry)
    on_class(handlers.on_class)


class _Handlers:
    """Wake the loop for what may change a class."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._thread: Thread | None = None
        self._known: dict[str, PodGroup] = {}  # by uid; most changes of a status do not matter

    async def start(self, **_: object) -> None:
        self._thread = parallel.run_daemon(self._loop.run_forever, name="fairshare")

    async def stop(self, **_: object) -> None:
        self._loop.stop()
        if self._thread:
            await asyncio.to_thread(self._thread.join)

    async def on_group(self, type: str | None, body: kopf.Body, **_: object) -> None:  # noqa: A002
        group = PodGroup.read(dict(body))
        if type == "DELETED":
            self._known.pop(group.uid, None)
        elif self._known.get(group.uid) == group:
            return
        else:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[group.uid] = group
        self._loop.wake()

    async def on_class(self, **_: object) -> None:
        self._loop.wake()


def _resource(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural
