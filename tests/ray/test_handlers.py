"""The handlers read what webhooks need once for all events."""

import asyncio
import time
from types import SimpleNamespace
from typing import cast

from kubectl_sky.cluster.session import Json
from kubectl_sky.errors import NotFound
from kubectl_sky.ray.controller import _Handlers, _Worker
from kubectl_sky.ray.reconcile import Reconciler, State

KEY = ("team", "fruit")
GRAPH: Json = {
    "metadata": {"namespace": "team", "name": "fruit", "uid": "1", "generation": 1},
    "spec": {},
}


def test_secret_events_at_same_time_share_one_request() -> None:
    reads: list[str] = []

    def secret(graph: Json, reference: Json, default_key: str) -> bytes:
        reads.append(reference["name"])
        time.sleep(0.05)
        return b"0123456789abcdef"

    async def read() -> list[bytes]:
        handlers = _Handlers(cast(Reconciler, SimpleNamespace(secret=secret)), "")
        spec = {"webhook": {"secretRef": {"name": "source"}}}
        worker = SimpleNamespace(graph={"spec": spec}, secret=(0.0, b""), reading=asyncio.Lock())
        handlers._workers[KEY] = cast(_Worker, worker)
        return await asyncio.gather(*(handlers._secret(KEY) for _ in range(3)))

    assert asyncio.run(read()) == [b"0123456789abcdef"] * 3
    assert reads == ["source"]


def test_graph_deleted_while_its_watch_was_lost_is_downloaded_no_more() -> None:
    rounds: list[str] = []

    async def reconcile(graph: Json, state: State) -> float:
        rounds.append(graph["metadata"]["name"])
        raise NotFound("rayservegraphs fruit not found")

    async def check() -> None:
        handlers = _Handlers(cast(Reconciler, SimpleNamespace(reconcile=reconcile)), "")
        for count in (1, 2):  # a later event starts the loop again
            await handlers.on_graph({"type": "ADDED", "object": GRAPH})  # type: ignore[typeddict-item]
            await asyncio.sleep(0.02)
            assert handlers._workers[KEY].has_ended
            assert len(rounds) == count
        await handlers.stop()

    asyncio.run(check())


def test_slow_sources_of_one_namespace_do_not_delay_graphs_of_another() -> None:
    rounds: list[str] = []

    async def reconcile(graph: Json, state: State) -> float:
        rounds.append(graph["metadata"]["namespace"])
        if graph["metadata"]["namespace"] == "stranger":
            await asyncio.Event().wait()
        return 60.0

    async def check() -> None:
        handlers = _Handlers(cast(Reconciler, SimpleNamespace(reconcile=reconcile)), "")
        keys = [("stranger", f"slow-{number}") for number in range(50)]
        for namespace, name in (*keys, KEY):
            metadata = GRAPH["metadata"] | {"namespace": namespace, "name": name}
            event = {"type": "ADDED", "object": GRAPH | {"metadata": metadata}}
            await handlers.on_graph(event)  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
        await handlers.stop()

    asyncio.run(check())
    assert "team" in rounds and rounds.count("stranger") < 10
