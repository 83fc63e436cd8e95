"""The ray controller: which changes are rounds, and whose slow sources delay whom."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kubectl_sky.cluster.session import Json
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.errors import NotFound
from kubectl_sky.words import names
from kubectl_sky.words.kinds import RAY_SERVE_GRAPH, RAY_SERVICE
from kubectl_sky.words.task_objects import RayServeGraph
from kubectl_sky_server.controllers.loop import Loop
from kubectl_sky_server.ray.controller import Key, RayController
from kubectl_sky_server.ray.reconcile import Reconciler, State
from tests.fake_cluster import FakeCluster
from tests.polling import eventually
from tests.reading import read

KEY = Key("team", "fruit")


def graph(key: Key = KEY, **metadata: Any) -> Json:
    values = {"namespace": key.namespace, "name": key.name, "uid": "1", "generation": 1}
    kind = {"apiVersion": RAY_SERVE_GRAPH.api_version, "kind": RAY_SERVE_GRAPH.kind}
    return kind | {"metadata": values | metadata, "spec": {"source": {}}}


def controller_of(**functions: Any) -> RayController:
    return RayController(cast(Reconciler, SimpleNamespace(**functions)))


def change(item: Json, type_: Change = Change.MODIFIED) -> WatchEvent:
    return WatchEvent(type_, RAY_SERVE_GRAPH, read(RAY_SERVE_GRAPH, item))


def test_changes_of_spec_and_service_are_rounds_and_others_are_not() -> None:
    controller = controller_of()
    owned = {"namespace": "team", "labels": {names.RAY_SERVE_GRAPH: "fruit"}}
    service = WatchEvent(Change.MODIFIED, RAY_SERVICE, read(RAY_SERVICE, {"metadata": owned}))
    assert controller.changed(service) is None, "of no known RayServeGraph"
    assert controller.changed(change(graph())) == (KEY, 0.0)
    assert controller.changed(change(graph())) is None, "its status"
    assert controller.changed(change(graph(generation=2))) == (KEY, 0.0)
    assert controller.changed(change(graph(uid="2"))) == (KEY, 0.0)
    assert controller.changed(service) == (KEY, 0.0)


@pytest.mark.parametrize(
    "event",
    [change(graph(), Change.DELETED), change(graph(deletionTimestamp="2026-01-01T00:00:00Z"))],
)
def test_deleted_graph_has_no_more_rounds(event: WatchEvent) -> None:
    controller = controller_of()
    controller.changed(change(graph()))
    assert controller.changed(event) is None
    assert controller.process(KEY) is None


def test_graph_deleted_while_its_watch_was_refused_is_downloaded_no_more() -> None:
    def reconcile(graph: RayServeGraph, state: State) -> float:
        raise NotFound("rayservegraphs fruit not found")

    controller = controller_of(reconcile=reconcile)
    for _ in range(2):  # a later event starts again
        assert controller.changed(change(graph())) == (KEY, 0.0)
        assert controller.process(KEY) is None
        assert not controller._graphs


def test_slow_sources_of_one_namespace_do_not_delay_graphs_of_another() -> None:
    rounds: list[str] = []
    finish = threading.Event()

    def reconcile(graph: RayServeGraph, state: State) -> float:
        rounds.append(graph.metadata.namespace)
        if graph.metadata.namespace == "stranger":
            finish.wait(60)
        return 60.0

    controller = controller_of(reconcile=reconcile)
    loop = Loop(controller, FakeCluster().session(), None)
    loop.start()
    try:
        keys = [*(Key("stranger", f"slow-{number}") for number in range(16)), KEY]
        for key in keys:
            assert controller.changed(change(graph(key)))
            loop.add(key)
        eventually(lambda: "team" in rounds)
        assert rounds.count("stranger") <= 4
        finish.set()
        eventually(lambda: rounds.count("stranger") == 16)
    finally:
        loop.stop()
        loop.join(60)
