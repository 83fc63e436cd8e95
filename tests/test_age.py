"""Durations are formatted like in kubectl."""

from datetime import UTC, datetime, timedelta

import pytest

from kubectl_sky.words.age import duration, since


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (310, "5m10s"), (600, "10m"),
        (10_799, "179m"), (10_800, "3h"), (11_000, "3h3m"), (28_800, "8h"), (172_799, "47h"),
        (190_000, "2d4h"), (864_000, "10d"), (63_072_000, "2y"), (70_000_000, "2y80d"),
        (300_000_000, "9y"),
    ],
)  # fmt: skip
def test_duration_is_formatted_like_kubectl(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_since_returns_age_or_unknown() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert since("2026-01-01T00:00:30Z", now) == "30s"
    assert since("2026-01-01T00:00:30.123456Z", now) == "29s"
    assert since("", now) == "<unknown>"


@pytest.mark.parametrize("text", ["10000-01-01T23:58:59Z", "9999-12-31T23:59:59-23:59", "x"])
def test_since_invalid_time_is_unknown(text: str) -> None:
    assert since(text, datetime(2026, 1, 1, tzinfo=UTC)) == "<unknown>"
