"""The ray controller: a round for each RayServeGraph when it, its RayService or its source changes.

Events while a round runs are one more round, so that any number of changes converges to the last
one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.errors import NotFound
from kubectl_sky.words import names
from kubectl_sky.words.kinds import RAY_SERVE_GRAPH, RAY_SERVICE
from kubectl_sky.words.task_objects import RayServeGraph
from kubectl_sky_server.controllers.loop import Context, Controller, Watch
from kubectl_sky_server.ray.reconcile import Reconciler, State


class Key(NamedTuple):
    """A RayServeGraph."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"rayservegraph {self.namespace}/{self.name}"


def controllers(context: Context) -> Sequence[Controller[Any]]:
    trusted_hosts = context.settings.ray_graphs.get("trusted_hosts") or ()
    return [RayController(Reconciler(context.session, tuple(trusted_hosts)))]


@dataclass
class _Graph:
    """A RayServeGraph, and what the process remembers of it."""

    manifest: RayServeGraph
    state: State


class RayController(Controller[Key]):
    """Reconcile RayServeGraphs; slow sources of a namespace do not delay those of others."""

    watches = (Watch(RAY_SERVE_GRAPH), Watch(RAY_SERVICE, names.RAY_SERVE_GRAPH))
    rest = 0.5

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler
        self._graphs: dict[Key, _Graph] = {}

    def group(self, key: Key) -> str:
        return key.namespace

    def changed(self, event: WatchEvent) -> tuple[Key, float] | None:
        """Take note of a RayServeGraph, or of its RayService: changed by hand, or in its status."""
        item = event.object
        metadata = item.metadata
        if not isinstance(item, RayServeGraph):
            key = Key(metadata.namespace, metadata.labels[names.RAY_SERVE_GRAPH])
            return (key, 0.0) if key in self._graphs else None

        key = Key(metadata.namespace, metadata.name)
        graph = self._graphs.get(key)
        if event.type == Change.DELETED or metadata.deletion_timestamp:
            self._graphs.pop(key, None)
            return None

        if graph is None or graph.manifest.metadata.uid != metadata.uid:
            self._graphs[key] = _Graph(item, State.of(item))
        elif graph.manifest.metadata.generation != metadata.generation:
            graph.manifest = item
        else:
            return None
        return key, 0.0

    def process(self, key: Key) -> float | None:
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
