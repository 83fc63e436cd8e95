"""A clock that stands still, for tests of ages and durations."""

from datetime import UTC, datetime, tzinfo
from types import ModuleType

import pytest


def stop(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> datetime:
    """Let modules that call `datetime.now` read the same time from now on; return it."""
    time = datetime.now(UTC).replace(microsecond=0)

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return time.astimezone(tz)

    for module in modules:
        monkeypatch.setattr(module, "datetime", Stopped)
    return time
