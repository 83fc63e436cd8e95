"""Ask whether a controller leads the tasks of a namespace, so that a client does not.

To lead is to resume stages, stop auxiliary tasks and stop the surviving nodes of failed tasks. A
Lease shows that the tasks controller lives. Who may not read it does not know of a controller.
"""

from collections.abc import Callable
from time import monotonic, sleep

from kubectl_sky.cluster import leases
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.words import names

CONTROLLER = "tasks"

_CHECK_SECONDS = 5.0
_POLL_SECONDS = 1.0


def controller_leads(session: Session, namespace: str) -> bool:
    """Return whether a live controller leads the tasks of a namespace. Raises ClusterError."""
    places = ((namespace, False), (names.CONTROLLERS_NAMESPACE, True))
    return any(_is_live(session, *place) for place in places)


def _is_live(session: Session, namespace: str, all_namespaces: bool) -> bool:
    try:
        lease = leases.get(session, namespace, names.controller_lease(CONTROLLER, all_namespaces))
    except (Forbidden, NotServed):
        return False
    return lease is not None and lease.live(session.now())


class Leadership:
    """Whether this client leads the tasks of a namespace: while no controller lives."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        self._checked_at = 0.0
        self.is_with_controller = False  # when asked last

    def __call__(self) -> bool:
        """Return whether the client leads; asks the cluster every few seconds."""
        if not self._checked_at or monotonic() >= self._checked_at + _CHECK_SECONDS:
            self.is_with_controller = controller_leads(self._session, self._namespace)
            self._checked_at = monotonic()
        return not self.is_with_controller

    def wait_for_controller(self, has_acted: Callable[[], bool]) -> bool:
        """Wait until the controller has acted; return False as soon as the client leads."""
        while not self():
            if has_acted():
                return True
            sleep(_POLL_SECONDS)
        return False
