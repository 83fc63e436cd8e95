"""The fairshare controller: read all classes and PodGroups, decide, write."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from threading import Event
from typing import Any

from kubectl_sky.cluster import events, objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.errors import ClusterError, Conflict, NotServed
from kubectl_sky.plan.fair_share import LABEL
from kubectl_sky.words import kinds, names
from kubectl_sky.words.scheduled_objects import PodGroup as PodGroupObject
from kubectl_sky_server.controllers.loop import Context, Controller, Watch
from kubectl_sky_server.fairshare.journal import Journal
from kubectl_sky_server.fairshare.model_decide import Decision, Remark, decide
from kubectl_sky_server.fairshare.model_policy import Policy, policies
from kubectl_sky_server.fairshare.model_state import PodGroup

Json = dict[str, Any]

_LOG = logging.getLogger(__name__)
_NAME = "fair share"
_MAX_KNOWN = 100_000  # PodGroups
_RESYNC_SECONDS = 300.0  # a watch that was refused does not report what was deleted meanwhile
_MAX_SENT = 10_000  # names of Events
_MAX_EVENTS = 100  # of a pass: a stranger's PodGroups, each with an Event, must not delay the next


def controllers(context: Context) -> Sequence[Controller[Any]]:
    """Return the controller of fair share, if it is on. Raises UserError for an invalid policy."""
    if not context.settings.fair_share:
        _LOG.info("fairshare is off: the settings name no queues")
        return []
    if context.namespace is not None:
        _LOG.warning("fairshare is off: PriorityClasses need a controller for all namespaces (-A)")
        return []
    return [FairShare(context.session, policies(context.settings))]


class FairShare(Controller[str]):
    """Fair share for the queues of the settings, in the whole cluster.

    Its only key is all of it: changes only wake it. What it decides follows from what exists and
    from what the classes remember, so that changes while no controller ran are not lost.
    """

    watches = (Watch(kinds.POD_GROUP), Watch(kinds.PRIORITY_CLASS, LABEL))
    first = (_NAME,)
    rest = 0.5
    rest_factor = 10  # it reads for at most a tenth of the time
    max_retry = 60.0

    def __init__(
        self,
        session: Session,
        policies: Mapping[str, Policy],
        clock: Callable[[], float] = time.time,
        namespace: str = names.CONTROLLERS_NAMESPACE,
    ) -> None:
        self._session = session
        self._policies = policies
        self._clock = clock
        self._journal = Journal(session, namespace)
        self._stopped = Event()
        self._sent: set[str] = set()
        self._known: dict[str, PodGroup] = {}  # by uid; most changes of a status do not matter

    def stop(self) -> None:
        """End `process` after the current change."""
        self._stopped.set()

    def changed(self, event: WatchEvent) -> tuple[str, float] | None:
        """Read everything again, if a class may change."""
        if isinstance(event.object, PodGroupObject):
            group = PodGroup.read(event.object)
            if event.type == Change.DELETED:
                self._known.pop(group.uid, None)
            elif self._known.get(group.uid) == group:
                return None
            else:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[group.uid] = group
        return _NAME, 0.0

    def process(self, key: str) -> float:
        return min(self.once(), _RESYNC_SECONDS)

    def once(self) -> float:
        """Make all changes that are due; return the seconds until the next recovery.

        Raises ClusterError: the first one, after all other classes were tried.
        """
        errors: list[ClusterError] = []
        for item in self._journal.unfinished():
            self._try(partial(self._journal.finish, item), errors)

        decision = self._decide()
        for item in decision.deletions:
            _LOG.info("%s: deleted, as nothing uses it", item["metadata"]["name"])
            delete = partial(
                objects.delete_unchanged, self._session, kinds.PRIORITY_CLASS, item["metadata"]
            )
            self._try(delete, errors)
        for change in decision.changes:
            if self._stopped.is_set():
                break
            _LOG.info("%s: value %s", change.name, change.manifest["value"])
            self._try(partial(self._journal.apply, change), errors)

        if decision.deletions or decision.changes:
            self.did("changed priorities")
        self._send_events(decision.remarks)
        if errors:
            raise errors[0]

        if decision.next_recovery is None:
            return _RESYNC_SECONDS
        return max(0.0, decision.next_recovery - self._clock())

    def _decide(self) -> Decision:
        """Read the classes first: what they remember is never newer than the PodGroups."""
        classes = objects.list_manifests(self._session, kinds.PRIORITY_CLASS)
        try:
            groups = objects.list_all(self._session, kinds.POD_GROUP)
        except NotServed as error:
            raise NotServed("Volcano is not installed: no PodGroups", error.hint) from None
        read = [PodGroup.read(item) for item in groups]
        return decide(self._policies, classes, read, int(self._clock()))

    def _try(self, action: Callable[[], None], errors: list[ClusterError]) -> None:
        """Run an action; an error does not stop those of other classes."""
        try:
            action()
        except ClusterError as error:
            errors.append(error)

    def _send_events(self, remarks: Sequence[Remark]) -> None:
        sent = 0
        for remark in remarks:
            if self._stopped.is_set() or sent == _MAX_EVENTS:
                return
            sent += self._send(remark)

    def _send(self, remark: Remark) -> bool:
        """Create an Event, once for each object and message; return whether it was sent now."""
        metadata = remark.about["metadata"]
        text = f"{metadata['uid']} {remark.reason} {remark.message}"
        name = f"{metadata['name'][:200].rstrip('-.')}.{sha256(text.encode()).hexdigest()[:16]}"
        if name in self._sent:
            return False

        now = datetime.fromtimestamp(self._clock(), UTC)
        event = events.event(remark.about, "Warning", remark.reason, remark.message, now)
        event["metadata"] = {"name": name, "namespace": event["metadata"]["namespace"]}
        event["source"] = {"component": f"{names.MANAGER}-fairshare"}

        try:
            objects.create(self._session, event)
        except Conflict:  # a previous process sent it
            _LOG.debug("Event %s exists", name)
        except ClusterError as error:
            _LOG.warning(
                "%s: %s: %s (no Event: %s)", metadata["name"], remark.reason, remark.message, error
            )

        if len(self._sent) >= _MAX_SENT:
            self._sent.clear()
        self._sent.add(name)
        return True
