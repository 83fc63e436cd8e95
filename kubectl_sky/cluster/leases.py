"""Read and hold Leases: which process leads, and until when.

Times are the API server's, from the Date of its answers: clocks of clients may be wrong.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Conflict, NotFound
from kubectl_sky.words import age, names
from kubectl_sky.words.core_objects import Lease as LeaseObject
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import LEASE

_LABELS = {names.MANAGED_BY: names.MANAGER}
_SELECTOR = f"{names.MANAGED_BY}={names.MANAGER}"
_MAX_SECONDS = 3600  # of a Lease that somebody else wrote
_MAX_AHEAD = timedelta(seconds=15)  # of a renewal; one that is later comes from a wrong clock
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Claim(Struct, frozen=True):
    """A Lease that a process wants to hold, for `seconds` after each renewal."""

    namespace: str
    name: str
    holder: str
    seconds: int


class Lease(Struct, frozen=True):
    """A Lease as the API server returned it."""

    namespace: str
    name: str
    holder: str
    renewed_at: datetime
    seconds: int
    version: str
    acquired_at: str = ""
    last_action: str = ""  # a time and what was done, as the holder wrote it

    def live(self, now: datetime) -> bool:
        """Whether a process holds it at the API server's time."""
        return bool(self.holder) and now < self.renewed_at + timedelta(seconds=self.seconds)


def get(session: Session, namespace: str, name: str) -> Lease | None:
    """Return a Lease, or None if it does not exist. Raises ClusterError."""
    try:
        return _lease(session, objects.get(session, LEASE, name, namespace))
    except NotFound:
        return None


def list_ours(session: Session, namespace: str | None) -> list[Lease]:
    """Return the Leases that our programs have held. Raises ClusterError."""
    items = objects.list_all(session, LEASE, namespace, label_selector=_SELECTOR)
    return [_lease(session, item) for item in items]


def hold(
    session: Session, claim: Claim, previous: Lease | None = None, last_action: str = ""
) -> Lease | None:
    """Take or renew a Lease; None if another process holds it. Raises ClusterError.

    Raises NotFound if its namespace does not exist. With the `previous` Lease of the same process,
    it takes one request. `last_action` is what the process did last.
    """
    lease = previous or get(session, claim.namespace, claim.name)
    if lease and lease.live(session.now()) and lease.holder != claim.holder:
        return None
    try:
        held = _patch(session, claim, lease, last_action) if lease else _create(session, claim)
        # Our clock was wrong, or has been set: the answer tells by how much.
        return held if held.live(session.now()) else _patch(session, claim, held, last_action)
    except (Conflict, NotFound) as error:  # another process was faster, or edited or deleted it
        if lease is None and isinstance(error, NotFound):
            raise
        return hold(session, claim, None, last_action) if previous else None


def release(session: Session, claim: Claim, lease: Lease) -> None:
    """Give a Lease back, so that others need not wait until it expires."""
    with suppress(Conflict, NotFound):
        _patch(session, replace(claim, holder="", seconds=1), lease)


def _patch(session: Session, claim: Claim, lease: Lease, last_action: str = "") -> Lease:
    """Change a Lease. Raises Conflict if it has changed meanwhile."""
    annotations = {names.LAST_ACTION: last_action} if last_action else {}
    body = {
        "metadata": {
            "resourceVersion": lease.version,
            "labels": _LABELS,
            "annotations": annotations,
        },
        "spec": _spec(claim, session.now(), acquired=claim.holder != lease.holder),
    }
    patched = objects.patch(session, LEASE, claim.name, claim.namespace, body)
    return _lease(session, convert(patched, LeaseObject))


def _create(session: Session, claim: Claim) -> Lease:
    body = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": claim.name, "namespace": claim.namespace, "labels": _LABELS},
        "spec": _spec(claim, session.now()),
    }
    return _lease(session, convert(objects.create(session, body), LeaseObject))


def _spec(claim: Claim, now: datetime, *, acquired: bool = True) -> dict[str, object]:
    time = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": claim.seconds,
        "renewTime": time,
        **({"acquireTime": time} if acquired else {}),
    }


def _lease(session: Session, item: LeaseObject) -> Lease:
    spec = item.spec
    now = session.now()
    renewed_at = age.parse(spec.renew_time) or _NEVER
    if renewed_at > now + _MAX_AHEAD:
        renewed_at = _NEVER  # a wrong clock must not hold it for years

    return Lease(
        item.metadata.namespace,
        item.metadata.name,
        spec.holder_identity or "",
        min(renewed_at, now),
        min(spec.lease_duration_seconds or 0, _MAX_SECONDS),
        item.metadata.resource_version,
        spec.acquire_time or "",
        item.metadata.annotations.get(names.LAST_ACTION, ""),
    )
