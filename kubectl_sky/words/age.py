"""Times as Kubernetes writes them, and durations like kubectl's: `42s`, `5m10s`, `3h`, `2d4h`."""

from datetime import UTC, datetime, timedelta

# Upper limit in seconds, and the units shown (k8s.io/apimachinery/pkg/util/duration).
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
    """Return the time since an RFC 3339 time; `<unknown>` if it is empty or invalid."""
    moment = parse(time)
    return duration(now - moment) if moment else "<unknown>"


def parse(time: str | None) -> datetime | None:
    """Parse an RFC 3339 time in UTC; None if it is empty or invalid.

    Users may write any time into events and custom resources, such as one in the year 10000.
    """
    try:
        return datetime.fromisoformat(time or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def timestamp(moment: datetime) -> str:
    """Format a time in UTC as Kubernetes writes it: in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(span: timedelta) -> str:
    """Format a duration; a negative one, caused by clock skew, becomes 0s."""
    seconds = max(int(span.total_seconds()), 0)
    major, minor = next(
        ((large, small) for limit, large, small in _STEPS if seconds < limit), ("y", "")
    )
    count, remainder = divmod(seconds, _SECONDS[major])
    extra = remainder // _SECONDS[minor] if minor else 0
    return f"{count}{major}{f'{extra}{minor}' if extra else ''}"
