"""Durations as kubectl writes them: `42s`, `5m10s`, `3h`, `2d4h`."""

from datetime import UTC, datetime, timedelta

# Up to how long, in seconds, which units are shown (k8s.io/apimachinery/pkg/util/duration).
_STEPS = (
    (120, "s", ""),
    (600, "m", "s"),
    (10_800, "m", ""),
    (28_800, "h", "m"),
    (172_800, "h", ""),
    (691_200, "d", "h"),
    (63_072_000, "d", ""),
    (252_288_000, "y", "d"),
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "y": 31_536_000}


def since(time: str, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was; `<unknown>` without one."""
    if not time:
        return "<unknown>"
    return duration(now - parse(time))


def parse(time: str) -> datetime:
    """Read Kubernetes' RFC 3339 in UTC, with or without fractions."""
    return datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(UTC)


def duration(span: timedelta) -> str:
    """Write a duration; a clock that runs behind the cluster's makes it 0s."""
    seconds = max(int(span.total_seconds()), 0)
    major, minor = next(((a, b) for limit, a, b in _STEPS if seconds < limit), ("y", ""))
    whole, rest = divmod(seconds, _SECONDS[major])
    extra = rest // _SECONDS[minor] if minor else 0
    return f"{whole}{major}{f'{extra}{minor}' if extra else ''}"
