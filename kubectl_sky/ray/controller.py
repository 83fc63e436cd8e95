"""The ray controller: a round for each RayServeGraph when it, its RayService or its source changes.

Events while a round runs are one more round, so that any number of changes converges to the last
one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Any

from kubectl_sky.cluster.session import Json
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.controllers.loop import Context, Controller, Watch
from kubectl_sky.errors import NotFound, SkyError
from kubectl_sky.ray.download import DownloadFailed
from kubectl_sky.ray.reconcile import Reconciler, State
from kubectl_sky.ray.webhook import Hooks, Key, WebhookServer
from kubectl_sky.words import names
from kubectl_sky.words.kinds import RAY_SERVE_GRAPH, RAY_SERVICE

_SECRET_SECONDS = 10.0  # how long a webhook's Secret is kept


def controllers(context: Context) -> Sequence[Controller[Any]]:
    """Return the controller of RayServeGraphs."""
    settings = context.settings.ray_graphs
    reconciler = Reconciler(context.session, tuple(settings.get("trusted_hosts") or ()))
    return [RayController(reconciler, settings.get("webhook") or "")]


@dataclass
class _Graph:
    """A RayServeGraph, and what the process remembers of it."""

    manifest: Json
    state: State
    secret: tuple[float, bytes] = (0.0, b"")  # until when, and the value
    reading: Lock = field(default_factory=Lock)  # the secret


class RayController(Controller[Key]):
    """Reconcile RayServeGraphs; slow sources of a namespace do not delay those of others."""

    watches = (Watch(RAY_SERVE_GRAPH), Watch(RAY_SERVICE, names.RAY_SERVE_GRAPH))
    rest = 0.5

    def __init__(self, reconciler: Reconciler, webhook: str) -> None:
        self._reconciler = reconciler
        self._webhook = webhook
        self._graphs: dict[Key, _Graph] = {}
        self._add: Callable[[Key], None] = lambda key: None
        self._server: WebhookServer | None = None

    def start(self, add: Callable[[Key], None]) -> None:
        """Listen for webhooks, if the settings say so."""
        self._add = add
        if self._webhook:
            host, port = self._webhook.rsplit(":", 1)
            self._server = WebhookServer(host, int(port), Hooks(self.secret, self._trigger))
            self._server.start()

    def stop(self) -> None:
        """Close the port of webhooks."""
        if self._server:
            self._server.stop()

    def group(self, key: Key) -> str:
        """Return the namespace."""
        return key.namespace

    def changed(self, event: WatchEvent) -> tuple[Key, float] | None:
        """Take note of a RayServeGraph, or of its RayService: changed by hand, or in its status."""
        metadata = event.object["metadata"]
        if event.kind == RAY_SERVICE:
            key = Key(metadata["namespace"], metadata["labels"][names.RAY_SERVE_GRAPH])
            return (key, 0.0) if key in self._graphs else None
        key = Key(metadata["namespace"], metadata["name"])
        graph = self._graphs.get(key)
        if event.type == Change.DELETED or metadata.get("deletionTimestamp"):
            self._graphs.pop(key, None)
            return None
        if graph is None or graph.manifest["metadata"]["uid"] != metadata["uid"]:
            self._graphs[key] = _Graph(event.object, State.of(event.object))
        elif graph.manifest["metadata"]["generation"] != metadata["generation"]:
            graph.manifest = event.object
        else:
            return None
        return key, 0.0

    def process(self, key: Key) -> float | None:
        """Run a round."""
        graph = self._graphs.get(key)
        if graph is None:
            return None
        try:
            seconds = self._reconciler.reconcile(graph.manifest, graph.state)
            self.did("reconciled a RayServeGraph")
            return seconds
        except NotFound:  # it was deleted while its watch was refused
            if self._graphs.get(key) is graph:
                del self._graphs[key]
            return None

    def _trigger(self, key: Key) -> None:
        graph = self._graphs.get(key)
        if graph:
            graph.state.trigger(datetime.now(UTC))
            self._add(key)

    def secret(self, key: Key) -> bytes:
        """Return the secret of a graph's webhook, read again after some seconds; empty for none."""
        graph = self._graphs.get(key)
        reference = graph and (graph.manifest["spec"].get("webhook") or {}).get("secretRef")
        if not graph or not reference:
            return b""
        with graph.reading:  # events at the same time wait for one request
            if graph.secret[0] < monotonic():
                graph.secret = (monotonic() + _SECRET_SECONDS, b"")
                try:
                    value = self._reconciler.secret(graph.manifest, reference, "secret")
                except (DownloadFailed, SkyError):
                    return b""
                graph.secret = (graph.secret[0], value)
            return graph.secret[1]
