"""Timeouts of retries: errors close together count as a single outage."""

from threading import Event

import pytest

from kubectl_sky.cluster import backoff
from kubectl_sky.cluster.backoff import Backoff, Outage
from kubectl_sky.errors import Unreachable

LOST = Unreachable("lost the connection")


class Clock:
    """A clock that only moves when set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(backoff, "monotonic", fake)
    return fake


@pytest.fixture
def retries() -> Backoff:
    """A Backoff that does not wait."""
    stop = Event()
    stop.set()
    return Backoff(stop, 60)


def test_backoff_continuous_failure_raises_after_timeout(retries: Backoff, clock: Clock) -> None:
    retries.wait_or_raise(LOST)
    clock.now += 59
    retries.wait_or_raise(LOST)
    clock.now += 2
    with pytest.raises(Unreachable):
        retries.wait_or_raise(LOST)


def test_backoff_stable_connection_resets_timeout(retries: Backoff, clock: Clock) -> None:
    for _ in range(5):
        retries.wait_or_raise(LOST)
        retries.opened()
        clock.now += 300
    retries.wait_or_raise(LOST)
    clock.now += 61
    with pytest.raises(Unreachable):
        retries.wait_or_raise(LOST)


def test_backoff_short_connection_does_not_reset_timeout(retries: Backoff, clock: Clock) -> None:
    retries.wait_or_raise(LOST)
    clock.now += 61
    retries.opened()
    clock.now += 1
    with pytest.raises(Unreachable):
        retries.wait_or_raise(LOST)


def test_request_from_before_ctrl_c_never_waits_again() -> None:
    """An answer to another request, such as a conflict, ends the outage for later ones only."""
    outage = Outage()
    outage.end()
    begun = Backoff(outage.given_up, 60.0)
    Outage.interrupt()
    outage.end()
    error = Unreachable("away")
    with pytest.raises(Unreachable):
        outage.wait_or_raise(begun, error)
    outage.wait_or_raise(Backoff(outage.given_up, 60.0), error)
