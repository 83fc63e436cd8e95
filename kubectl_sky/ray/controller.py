"""kopf handlers of the ray controller: they only wake the loop of each RayServeGraph.

There is one asyncio task per RayServeGraph. Events while a round runs are one more round, so that
any number of changes converges to the last one.
"""

import asyncio
import copy
import logging
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import kopf

from kubectl_sky.cluster.session import Json
from kubectl_sky.controllers.context import Context
from kubectl_sky.errors import NotFound, SkyError
from kubectl_sky.ray.download import DownloadFailed
from kubectl_sky.ray.reconcile import Reconciler, State
from kubectl_sky.ray.webhook import Hooks, Key, Server
from kubectl_sky.words import names
from kubectl_sky.words.kinds import RAY_SERVE_GRAPH, RAY_SERVICE, Kind

_LOG = logging.getLogger(__name__)
_GAP_SECONDS = 0.5  # between the rounds of a RayServeGraph
_RETRY_SECONDS = 30.0  # after an error of the API server
_ROUNDS = 4  # of a namespace at the same time: its slow servers must not delay the others
_SECRET_SECONDS = 10.0  # how long a webhook's Secret is kept


def register(registry: kopf.OperatorRegistry, context: Context) -> None:
    """Add the handlers of this controller."""
    if context.namespace is None:
        context.operator.scanning.disabled = False  # KubeRay may be installed later
    settings = context.settings.ray_graphs
    reconciler = Reconciler(context.session, tuple(settings.get("trusted_hosts") or ()))
    handlers = _Handlers(reconciler, settings.get("webhook") or "")
    kopf.on.startup(registry=registry)(handlers.start)
    kopf.on.cleanup(registry=registry)(handlers.stop)
    kopf.on.event(*_resource(RAY_SERVE_GRAPH), registry=registry)(handlers.on_graph)
    labels: dict[str, Any] = {names.RAY_SERVE_GRAPH: kopf.PRESENT}
    on_service = kopf.on.event(*_resource(RAY_SERVICE), labels=labels, registry=registry)
    on_service(handlers.on_service)


def _resource(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


class _Worker:
    """The loop of one RayServeGraph."""

    def __init__(self, reconciler: Reconciler, graph: Json, rounds: asyncio.Semaphore) -> None:
        self.graph = graph
        self.secret: tuple[float, bytes] = (0.0, b"")  # until when, and the value
        self.reading = asyncio.Lock()  # the secret
        self.wake = asyncio.Event()
        self.state = State.of(graph)
        self._reconciler = reconciler
        self._rounds = rounds
        self._task = asyncio.create_task(self._run())

    @property
    def has_ended(self) -> bool:
        """Whether the RayServeGraph was not found."""
        return self._task.done()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self.wake.clear()
            try:
                async with self._rounds:
                    pause = await self._round()
            except NotFound:  # kopf does not report what was deleted while its watch was lost
                return
            await asyncio.sleep(_GAP_SECONDS)
            try:
                async with asyncio.timeout(pause):
                    await self.wake.wait()
            except TimeoutError:
                continue

    async def _round(self) -> float:
        metadata = self.graph["metadata"]
        try:
            return await self._reconciler.reconcile(self.graph, self.state)
        except NotFound:
            raise
        except SkyError as error:
            reported = error.what
        except Exception as error:  # noqa: BLE001 - one graph must not stop the others
            reported = f"bug: {type(error).__name__}"  # its text may have anything in it
        _LOG.error("rayservegraph %s/%s: %s", metadata["namespace"], metadata["name"], reported)
        return _RETRY_SECONDS


class _Handlers:
    """The loops by namespace and name, and the server of webhooks."""

    def __init__(self, reconciler: Reconciler, webhook: str) -> None:
        self._reconciler = reconciler
        self._webhook = webhook
        self._workers: dict[Key, _Worker] = {}
        self._rounds: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_ROUNDS))
        self._server = Server(Hooks(self._secret, self._trigger))

    async def start(self, **_: object) -> None:
        if self._webhook:
            host, port = self._webhook.rsplit(":", 1)
            try:
                await self._server.start(host, int(port))
            except (OSError, OverflowError) as error:
                why = f"ray_graphs.webhook: cannot listen on {self._webhook}: {error}"
                raise kopf.PermanentError(why) from None

    async def stop(self, **_: object) -> None:
        await self._server.stop()
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()))

    async def on_graph(self, event: kopf.RawEvent, **_: object) -> None:
        graph: Json = copy.deepcopy(dict(event["object"]))
        metadata = graph["metadata"]
        key = (metadata["namespace"], metadata["name"])
        worker = self._workers.get(key)
        if worker and worker.graph["metadata"]["uid"] != metadata["uid"]:
            await self._workers.pop(key).stop()
            worker = None
        if event["type"] == "DELETED" or metadata.get("deletionTimestamp"):
            if worker:
                await self._workers.pop(key).stop()
        elif worker is None or worker.has_ended:
            self._workers[key] = _Worker(self._reconciler, graph, self._rounds[key[0]])
        elif worker.graph["metadata"]["generation"] != metadata["generation"]:
            worker.graph = graph
            worker.wake.set()

    async def on_service(
        self, namespace: str | None, labels: Mapping[str, str], **_: object
    ) -> None:
        """Wake the loop whose RayService changed: by hand, or in its status."""
        worker = self._workers.get((namespace or "", labels[names.RAY_SERVE_GRAPH]))
        if worker:
            worker.wake.set()

    def _trigger(self, key: Key) -> None:
        worker = self._workers.get(key)
        if worker:
            worker.state.trigger(datetime.now(UTC))
            worker.wake.set()

    async def _secret(self, key: Key) -> bytes:
        """Return the secret of a graph's webhook, read again after some seconds."""
        worker = self._workers.get(key)
        reference = worker and (worker.graph["spec"].get("webhook") or {}).get("secretRef")
        if not worker or not reference:
            return b""
        async with worker.reading:  # events at the same time wait for one request
            if worker.secret[0] < monotonic():
                worker.secret = (monotonic() + _SECRET_SECONDS, b"")
                try:
                    value = await asyncio.to_thread(
                        self._reconciler.secret, worker.graph, reference, "secret"
                    )
                except (DownloadFailed, SkyError):
                    return b""
                worker.secret = (worker.secret[0], value)
            return worker.secret[1]
