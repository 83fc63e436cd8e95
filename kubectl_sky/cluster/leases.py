"""Read and hold Leases: which process leads, and until when.

Times are the API server's, from the Date of its answers: clocks of clients may be wrong.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Answer, Session
from kubectl_sky.errors import Conflict, NotFound
from kubectl_sky.kinds import LEASE
from kubectl_sky.names import MANAGER

_MAX_SECONDS = 3600  # of a Lease that somebody else wrote
_MAX_AHEAD = timedelta(seconds=15)  # of a renewal; one that is later comes from a wrong clock
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Claim:
    """A Lease that a process wants to hold, for `seconds` after each renewal."""

    namespace: str
    name: str
    holder: str
    seconds: int


@dataclass(frozen=True)
class Lease:
    """A Lease as the API server returned it; `offset` is the server's time minus ours."""

    holder: str
    renewed_at: datetime
    seconds: int
    version: str
    offset: timedelta

    @property
    def live(self) -> bool:
        """Whether a process holds it."""
        now = datetime.now(UTC) + self.offset
        return bool(self.holder) and now < self.renewed_at + timedelta(seconds=self.seconds)


def get(session: Session, namespace: str, name: str) -> Lease | None:
    """Return a Lease, or None if it does not exist. Raises ClusterError."""
    try:
        return _lease(session.send("GET", objects.path(LEASE, namespace, name)))
    except NotFound:
        return None


def hold(session: Session, claim: Claim, previous: Lease | None = None) -> Lease | None:
    """Take or renew a Lease; None if another process holds it. Raises ClusterError.

    With the `previous` Lease of the same process, it takes one request.
    """
    lease = previous or get(session, claim.namespace, claim.name)
    if lease and lease.live and lease.holder != claim.holder:
        return None
    try:
        held = _patch(session, claim, lease) if lease else _create(session, claim)
        # Our clock was wrong, or has been set: the answer tells by how much.
        return held if held.live else _patch(session, claim, held)
    except (Conflict, NotFound):  # another process was faster, or it was edited or deleted
        return hold(session, claim) if previous else None


def release(session: Session, claim: Claim, lease: Lease) -> None:
    """Give a Lease back, so that others need not wait until it expires."""
    with suppress(Conflict, NotFound):
        _patch(session, replace(claim, holder="", seconds=1), lease)


def _patch(session: Session, claim: Claim, lease: Lease) -> Lease:
    """Change a Lease. Raises Conflict if it has changed meanwhile."""
    answer = session.send(
        "PATCH",
        objects.path(LEASE, claim.namespace, claim.name),
        query={"fieldManager": MANAGER},
        body={
            "metadata": {"resourceVersion": lease.version},
            "spec": _spec(claim, datetime.now(UTC) + lease.offset),
        },
        headers={"Content-Type": "application/merge-patch+json"},
    )
    return _lease(answer)


def _create(session: Session, claim: Claim) -> Lease:
    body = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": claim.name, "namespace": claim.namespace},
        "spec": _spec(claim, datetime.now(UTC)),
    }
    return _lease(session.send("POST", objects.path(LEASE, claim.namespace), body=body))


def _spec(claim: Claim, now: datetime) -> dict[str, object]:
    return {
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": claim.seconds,
        "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def _lease(answer: Answer) -> Lease:
    spec, metadata = answer.body.get("spec") or {}, answer.body["metadata"]
    now = datetime.now(UTC)
    server_time = _parsed(lambda: parsedate_to_datetime(answer.date), now)
    renewed_at = _parsed(lambda: datetime.fromisoformat(spec["renewTime"]), _NEVER)
    if renewed_at > server_time + _MAX_AHEAD:
        renewed_at = _NEVER  # a wrong clock must not hold it for years
    seconds = spec.get("leaseDurationSeconds")
    return Lease(
        str(spec.get("holderIdentity") or ""),
        min(renewed_at, server_time),
        min(seconds, _MAX_SECONDS) if isinstance(seconds, int) else 0,
        str(metadata.get("resourceVersion") or ""),
        server_time - now,
    )


def _parsed(parse: Callable[[], datetime], default: datetime) -> datetime:
    """Return a time in UTC, or the default for one that is missing or invalid."""
    try:
        return parse().astimezone(UTC)
    except (LookupError, ValueError, OverflowError, TypeError):
        return default
