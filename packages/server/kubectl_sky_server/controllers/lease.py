"""Hold the Leases of the controllers, so that one process leads and clients know that it lives."""

import logging
import os
import secrets
import socket
from collections.abc import Iterable
from threading import Event

from kubectl_sky.cluster import leases
from kubectl_sky.cluster.leases import Claim, Lease
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotFound, Unreachable
from kubectl_sky.words import age
from kubectl_sky.words.names import CONTROLLERS_NAMESPACE, controller_lease

LEASE_SECONDS = 45
_RENEW_SECONDS = 15.0
_RETRY_SECONDS = 5.0  # of a process that waits for a Lease

_log = logging.getLogger(__name__)


def claims_of(controllers: Iterable[str], namespace: str | None) -> list[Claim]:
    """Return the Leases of controllers in one order, so that two processes never deadlock."""
    holder = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    home = namespace or CONTROLLERS_NAMESPACE
    names = [controller_lease(name, namespace is None) for name in sorted(controllers)]
    return [Claim(home, name, holder, LEASE_SECONDS) for name in names]


class LeaseKeeper:
    """Hold several Leases from the first moment to the last."""

    def __init__(self, session: Session, claims: Iterable[Claim]) -> None:
        self._session = session
        self._claims = tuple(claims)
        self._held: dict[Claim, Lease] = {}
        self._last_action = ""

    def did(self, what: str) -> None:
        """Remember what a controller did, for the next renewal: users may read it, so no names."""
        self._last_action = f"{age.timestamp(self._session.now())} {what}"

    def acquire(self, stop: Event) -> bool:
        """Wait until all Leases are held, or for `stop`; return whether they are held.

        Raises ClusterError if that is not allowed.
        """
        self._held.clear()
        for claim in self._claims:
            logged = ""
            while reason := self._why_not(claim):
                if reason != logged:
                    _log.info("waiting for the Lease %s: %s", _path(claim), reason)
                logged = reason
                if stop.wait(_RETRY_SECONDS):
                    return False
                for held in self._held:
                    self._why_not(held)
        return not stop.is_set()

    def keep(self, stop: Event) -> str:
        """Renew the Leases until one is lost, and return why; nothing after `stop`."""
        while not stop.wait(_RENEW_SECONDS):
            for claim in self._claims:
                try:
                    held = self._hold(claim)
                except ClusterError as error:
                    _log.warning("cannot renew the Lease %s: %s", _path(claim), error)
                    held = self._held[claim].live(self._session.now())
                    reason = "it has expired"
                else:
                    reason = "another process holds it"
                if not held:
                    return f"lost the Lease {_path(claim)}: {reason}"
        return ""

    def release(self) -> None:
        """Give the Leases back, as far as the cluster answers."""
        for claim, lease in self._held.items():
            try:
                leases.release(self._session, claim, lease)
            except ClusterError as error:
                _log.warning("cannot release the Lease %s: %s", _path(claim), error)
        self._held.clear()

    def _hold(self, claim: Claim) -> bool:
        """Take or renew a Lease; return whether it is held. Raises ClusterError."""
        try:
            lease = leases.hold(self._session, claim, self._held.get(claim), self._last_action)
        except (Forbidden, NotFound) as error:
            hint = "`kubectl sky controllers install` prints the namespace and the rights"
            raise ClusterError(
                f"cannot hold the Lease {_path(claim)}: {error.what}", hint
            ) from None
        if lease:
            self._held[claim] = lease
        return lease is not None

    def _why_not(self, claim: Claim) -> str:
        """Take or renew a Lease; return why it is not held, or nothing. Raises ClusterError."""
        try:
            return "" if self._hold(claim) else "another process holds it"
        except Unreachable as error:
            return error.what


def _path(claim: Claim) -> str:
    return f"{claim.namespace}/{claim.name}"
