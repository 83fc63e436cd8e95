"""Events are accepted with a fresh signature of their graph only, once."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import pytest

from kubectl_sky.ray import webhook
from kubectl_sky.ray.webhook import Hooks, Key, Replays, Server
from tests.ray.source import SECRET

NOW = 1_764_000_000
KEY = ("team", "fruit")


@dataclass(frozen=True)
class Send:
    """Sends an event to the server at a port; returns the status."""

    port: int

    async def __call__(
        self, key: Key = KEY, body: bytes = b"{}", stamp: str = str(NOW), signature: str = ""
    ) -> int:
        headers = {
            "Kubectl-Sky-Timestamp": stamp,
            "Kubectl-Sky-Signature": signature or webhook.sign(SECRET, stamp, KEY, body),
        }
        path = f"/v1/namespaces/{key[0]}/rayservegraphs/{key[1]}/events"
        async with (
            aiohttp.ClientSession() as client,
            client.post(
                f"http://127.0.0.1:{self.port}{path}", data=body, headers=headers
            ) as response,
        ):
            return response.status


def run(check: Callable[[Send, list[Key]], Awaitable[None]]) -> None:
    """Run a check with a function that sends an event, and the list of triggered graphs."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        triggered: list[Key] = []

        async def secret(key: Key) -> bytes:
            return {KEY: SECRET, ("team", "short"): b"short"}.get(key, b"")

        server = Server(Hooks(secret, triggered.append), clock=lambda: float(NOW))
        await server.start("127.0.0.1", port)

        try:
            await check(Send(port), triggered)
        finally:
            await server.stop()

    asyncio.run(main())


def test_event_signed_triggers_graph_once() -> None:
    async def check(send: Send, triggered: list[Key]) -> None:
        assert await send() == 202
        assert await send() == 409, "a replay"
        assert await send(body=b"{} ") == 202
        assert triggered == [KEY, KEY]

    run(check)


def test_event_unsigned_is_refused() -> None:
    short = webhook.sign(b"short", str(NOW), ("team", "short"), b"{}")
    other = webhook.sign(SECRET, str(NOW), ("team", "other"), b"{}")
    old = str(NOW - 301)

    async def check(send: Send, triggered: list[Key]) -> None:
        assert await send(signature="sha256=" + "0" * 64) == 401
        assert await send(signature="nonsense") == 401
        assert await send(signature=other) == 401, "of another graph"
        assert await send(key=("team", "other")) == 401, "an unknown graph"
        assert await send(key=("team", "short"), signature=short) == 401, "a short secret"
        assert await send(stamp=old) == 401
        assert await send(stamp=str(NOW + 301)) == 401
        assert await send(stamp="٣" * 10, signature="sha256=" + "0" * 64) == 401
        assert await send(stamp=str(NOW - 300)) == 202
        assert triggered == [KEY]

    run(check)


def test_event_beside_many_slow_unsigned_senders_is_accepted() -> None:
    async def check(send: Send, triggered: list[Key]) -> None:
        head = (
            "POST /v1/namespaces/team/rayservegraphs/fruit/events HTTP/1.1\r\nHost: x\r\n"
            f"Kubectl-Sky-Timestamp: {NOW}\r\nKubectl-Sky-Signature: sha256={'0' * 64}\r\n"
            "Content-Length: 100\r\n\r\nslow"
        )
        streams = [await asyncio.open_connection("127.0.0.1", send.port) for _ in range(200)]
        for _, writer in streams:
            writer.write(head.encode())
        await streams[-1][1].drain()
        await asyncio.sleep(0.3)  # the server has read all heads, and no body is late
        async with asyncio.timeout(2):
            assert await send() == 202
            assert b" 408 " in await streams[0][0].readline(), "the oldest goes"
        assert triggered == [KEY]
        for _, writer in streams:
            writer.close()

    run(check)


def test_event_large_body_is_refused() -> None:
    async def check(send: Send, triggered: list[Key]) -> None:
        assert await send(body=b"x" * 100_000) == 413
        assert not triggered

    run(check)


def test_replays_are_forgotten_after_their_age() -> None:
    replays = Replays()
    assert replays.add("team", "a", 0.0)
    assert not replays.add("team", "a", 600.0)
    assert replays.add("team", "a", 601.0)


def test_replays_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_REMEMBERED", 2)
    replays = Replays()
    assert [replays.add("team", name, 0.0) for name in "abc"] == [True, True, False]


def test_replays_of_one_namespace_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_REMEMBERED_PER_NAMESPACE", 2)
    replays = Replays()
    assert [replays.add("flood", name, 0.0) for name in "abc"] == [True, True, False]
    assert replays.add("team", "a", 0.0)
    assert replays.add("flood", "c", 601.0), "old signatures no longer count"
