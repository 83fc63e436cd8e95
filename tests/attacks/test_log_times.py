"""Invalid timestamps of log lines."""

import pytest

from kubectl_sky.cluster.tail import started_since
from tests.reading import read_pod


@pytest.mark.parametrize(
    ("started", "stamp"),
    [
        ("2026-01-01T00:00:00Z", b"2026-99-99T99:99:99Z"),
        ("10000-01-01T11:59:59Z", b"2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00", b"2026-01-01T00:00:00Z"),
    ],
)
def test_started_since_invalid_time_is_false(started: str, stamp: bytes) -> None:
    statuses = [{"name": "main", "state": {"running": {"startedAt": started}}}]
    assert not started_since(read_pod({"status": {"containerStatuses": statuses}}), "main", stamp)


def test_started_since_later_start_is_true() -> None:
    statuses = [{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}}}]
    pod = {"status": {"containerStatuses": statuses}}
    assert started_since(read_pod(pod), "main", b"2026-01-01T00:00:00.5Z")
