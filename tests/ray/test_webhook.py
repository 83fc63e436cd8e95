"""Events are accepted with a fresh signature of their graph only, once."""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from types import MappingProxyType

import pytest

from kubectl_sky.ray import webhook
from kubectl_sky.ray.webhook import Hooks, Key, Replays, WebhookServer
from tests.ray.source import SECRET

NOW = 1_764_000_000
KEY = Key("team", "fruit")


@dataclass(frozen=True)
class Send:
    """Sends an event to the server at a port; returns the status."""

    port: int

    def __call__(
        self,
        key: Key = KEY,
        body: bytes = b"{}",
        stamp: str = str(NOW),
        signature: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> int:
        headers = {
            **headers,
            "Kubectl-Sky-Timestamp": stamp,
            "Kubectl-Sky-Signature": signature or webhook.sign(SECRET, stamp, KEY, body),
        }
        path = f"/v1/namespaces/{key[0]}/rayservegraphs/{key[1]}/events"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        encoded = {name: value.encode() for name, value in headers.items()}
        try:
            connection.request("POST", path, body, encoded)
            return connection.getresponse().status
        finally:
            connection.close()


def run(check: Callable[[Send, list[Key]], None]) -> None:
    """Run a check with a function that sends an event, and the list of triggered graphs."""
    triggered: list[Key] = []

    def secret(key: Key) -> bytes:
        return {KEY: SECRET, Key("team", "short"): b"short"}.get(key, b"")

    hooks = Hooks(secret, triggered.append)
    server = WebhookServer("127.0.0.1", 0, hooks, clock=lambda: float(NOW))
    server.start()
    try:
        check(Send(server.socket.getsockname()[1]), triggered)
    finally:
        server.stop()


def test_event_signed_triggers_graph_once() -> None:
    def check(send: Send, triggered: list[Key]) -> None:
        assert send() == 202
        assert send() == 409, "a replay"
        assert send(body=b"{} ") == 202
        assert triggered == [KEY, KEY]

    run(check)


def test_event_unsigned_is_refused() -> None:
    short = webhook.sign(b"short", str(NOW), Key("team", "short"), b"{}")
    other = webhook.sign(SECRET, str(NOW), Key("team", "other"), b"{}")
    old = str(NOW - 301)

    def check(send: Send, triggered: list[Key]) -> None:
        assert send(signature="sha256=" + "0" * 64) == 401
        assert send(signature="nonsense") == 401
        assert send(signature=other) == 401, "of another graph"
        assert send(key=Key("team", "other")) == 401, "an unknown graph"
        assert send(key=Key("team", "short"), signature=short) == 401, "a short secret"
        assert send(stamp=old) == 401
        assert send(stamp=str(NOW + 301)) == 401
        assert send(stamp="٣" * 10, signature="sha256=" + "0" * 64) == 401
        assert send(stamp=str(NOW - 300)) == 202
        assert triggered == [KEY]

    run(check)


def test_event_beside_many_slow_unsigned_senders_is_accepted() -> None:
    def check(send: Send, triggered: list[Key]) -> None:
        head = (
            "POST /v1/namespaces/team/rayservegraphs/fruit/events HTTP/1.1\r\nHost: x\r\n"
            f"Kubectl-Sky-Timestamp: {NOW}\r\nKubectl-Sky-Signature: sha256={'0' * 64}\r\n"
            "Content-Length: 100\r\n\r\nslow"
        )
        slow = [socket.create_connection(("127.0.0.1", send.port)) for _ in range(200)]
        for connection in slow:
            connection.sendall(head.encode())
        assert send() == 202
        slow[0].settimeout(60)
        with suppress(ConnectionResetError):  # its body may not have been read yet
            assert slow[0].recv(1000) == b"", "the oldest is closed"
        assert triggered == [KEY]
        for connection in slow:
            connection.close()

    run(check)


def test_event_with_slow_body_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_BODY_SECONDS", 0.3)

    def check(send: Send, triggered: list[Key]) -> None:
        with socket.create_connection(("127.0.0.1", send.port), 60) as connection:
            head = (
                "POST /v1/namespaces/team/rayservegraphs/fruit/events HTTP/1.1\r\nHost: x\r\n"
                f"Kubectl-Sky-Timestamp: {NOW}\r\nKubectl-Sky-Signature: sha256={'0' * 64}\r\n"
                "Content-Length: 100\r\n\r\nslow"
            )
            connection.sendall(head.encode())
            assert b" 408 " in connection.recv(1000)

    run(check)


def test_event_without_length_or_to_another_path_is_refused() -> None:
    def check(send: Send, triggered: list[Key]) -> None:
        assert send(headers={"Transfer-Encoding": "chunked"}) == 411
        assert send(Key("team", "fruit/other")) == 404
        assert not triggered

    run(check)


def test_event_large_body_is_refused() -> None:
    def check(send: Send, triggered: list[Key]) -> None:
        assert send(body=b"x" * 100_000) == 413
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
