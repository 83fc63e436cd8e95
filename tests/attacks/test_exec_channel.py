"""Hostile messages on the channels of exec: handled in bounded time."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Event
from time import monotonic, sleep
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.cluster.exec import V5, FirstBytes, Pipes, Program, run
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError
from kubectl_sky.sync import delivery

PROGRAM = Program("default", "pod-a", "task", ["tar"])


class Scripted:
    """A session with a WebSocket that receives these messages and then stays silent."""

    protocol = V5

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.messages = list(messages)
        self.sent: list[bytes] = []
        self.waiting = Event()

    def receive(self, stop: Event | None, until: float | None) -> bytes | None:
        if self.messages:
            return self.messages.pop(0)
        self.waiting.set()
        while not (stop and stop.is_set()):
            if until and monotonic() > until:
                break
            sleep(0.01)
        raise TimeoutError

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def hang_up(self) -> None:
        pass

    close = hang_up

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def scripted() -> Iterator[None]:
    """Use the session of a test as its WebSocket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kubectl_sky.cluster.exec.connect", lambda session, *_: session)
        yield


def ran(*messages: bytes, **pipes: Any) -> int:
    return run(cast(Session, Scripted(messages)), PROGRAM, Pipes(**pipes))


def ending(value: object) -> bytes:
    return b"\3" + json.dumps(value).encode()


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"status": "Failure", "details": []},
        {"status": "Failure", "details": {"causes": {}}},
        {"status": "Failure", "details": {"causes": [1, None, {"reason": "ExitCode"}]}},
        {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "²"}]}},
        {
            "status": "Failure",
            "details": {"causes": [{"reason": "ExitCode", "message": "9" * 9999}]},
        },
        {"status": "Failure", "message": ["x"] * 100_000},
        {"status": "Failure", "message": "x" * 1_000_000},
    ],
)
def test_exec_status_of_any_shape_is_short_error(status: object) -> None:
    with pytest.raises(ClusterError) as error:
        ran(ending(status))
    assert len(str(error.value)) < 1200


@pytest.mark.parametrize("text", [b"[" * 1_000_000, b'{"a":' * 100_000, b"\xff", b"", b"1"])
def test_exec_status_that_is_not_json_is_error(text: bytes) -> None:
    with pytest.raises(ClusterError):
        ran(b"\3" + text, b"\3{}", idle=0.1)


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_exec_random_messages_give_exit_code_or_error(messages: list[bytes]) -> None:
    with suppress(SkyError):
        assert 0 <= ran(*messages, idle=0.01) <= 999


def test_exec_silent_program_is_stalled() -> None:
    with pytest.raises(ClusterError, match=r"stalled: no data for 0.2 seconds"):
        ran(b"\1x", idle=0.2)


def test_exec_program_reading_stdin_is_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = monotonic
    passed = 0.0

    def slow() -> Iterator[bytes]:
        nonlocal passed
        assert session.waiting.wait(60)
        for _ in range(5):
            passed += 20
            yield b"x"
        passed += 60

    for module in ("kubectl_sky.cluster.exec", __name__):
        monkeypatch.setattr(f"{module}.monotonic", lambda: clock() + passed)
    session = Scripted([])
    with pytest.raises(ClusterError, match="stalled: no data for 30 seconds"):
        run(cast(Session, session), PROGRAM, Pipes(stdin=slow(), idle=30))
    assert session.sent[:5] == [b"\0x"] * 5


def test_exec_flood_of_messages_is_error() -> None:
    err = FirstBytes()
    with pytest.raises(ClusterError, match="too many messages"):
        ran(*[b"\2" + b"x" * 65536] * 1000, stderr=err)
    assert len(err.data) == 65536


def test_upload_flood_of_answers_ends_with_error() -> None:
    for channel in (b"\1", b"\2"):
        scripted = Scripted([channel + b"x" * 65536] * 1000)
        outcome = delivery.send(cast(Session, scripted), PROGRAM, iter([b"data"]), Event())
        assert "too many messages" in str(outcome.error)
        assert not any(b"data" in message for message in scripted.sent)
