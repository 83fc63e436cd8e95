"""How long errors are borne: as long as they are one trouble, and not several far apart."""

from collections.abc import Iterator
from threading import Event

import pytest

from kubectl_sky.cluster import backoff
from kubectl_sky.cluster.backoff import Backoff, retry_unreachable
from kubectl_sky.errors import Unreachable

LOST = Unreachable("lost the connection")


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(backoff, "monotonic", found)
    return found


@pytest.fixture
def bearing() -> Backoff:
    """One that does not wait."""
    stop = Event()
    stop.set()
    return Backoff(stop, 60)


def test_one_trouble_is_borne_for_its_time(bearing: Backoff, clock: Clock) -> None:
    bearing.wait_or_raise(LOST)
    clock.now += 59
    bearing.wait_or_raise(LOST)
    clock.now += 2
    with pytest.raises(Unreachable):
        bearing.wait_or_raise(LOST)


def test_a_silent_connection_that_held_was_a_good_one(bearing: Backoff, clock: Clock) -> None:
    for _ in range(5):
        bearing.wait_or_raise(LOST)
        bearing.opened()
        clock.now += 300


def test_one_that_is_lost_at_once_was_none(bearing: Backoff, clock: Clock) -> None:
    bearing.wait_or_raise(LOST)
    clock.now += 61
    bearing.opened()
    clock.now += 1
    with pytest.raises(Unreachable):
        bearing.wait_or_raise(LOST)


def test_asking_until_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "_FIRST_DELAY_SECONDS", 0.01)
    answers: Iterator[Unreachable | str] = iter([LOST, LOST, "here"])

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    assert retry_unreachable(ask) == "here"
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0)
    answers = iter([LOST, LOST])
    with pytest.raises(Unreachable):
        retry_unreachable(ask)
