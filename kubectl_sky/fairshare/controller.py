"""The loop of fair share: read all classes and PodGroups, decide, write.

Events only wake it. What it decides follows from what exists and from what the classes remember,
so that events that came while no controller ran are not lost. One thread makes all changes.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from threading import Event
from typing import Any

from kubectl_sky.cluster import backoff, objects, shapes
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Conflict, NotServed
from kubectl_sky.fairshare.journal import Journal
from kubectl_sky.fairshare.model.decide import Decision, Remark, decide
from kubectl_sky.fairshare.model.policy import Policy
from kubectl_sky.fairshare.model.state import PodGroup
from kubectl_sky.words import kinds, names

Json = dict[str, Any]

_LOG = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 60.0
_RESYNC_SECONDS = 300.0  # kopf does not report what was deleted while its watch was interrupted
_MIN_PAUSE_SECONDS = 0.5
_PAUSE_FACTOR = 10  # the loop reads for at most a tenth of the time
_MAX_SENT = 10_000  # names of Events
_MAX_EVENTS = 100  # of a pass: a stranger's PodGroups, each with an Event, must not delay the next


class Loop:
    """Fair share for the queues of the settings, in the whole cluster."""

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
        self._wake = Event()
        self._stopped = Event()
        self._sent: set[str] = set()
        self._problem = ""

    def wake(self) -> None:
        """Read everything again soon."""
        self._wake.set()

    def stop(self) -> None:
        """End `run` after the current change."""
        self._stopped.set()
        self._wake.set()

    def run_forever(self) -> None:
        """Run, also after a bug: it must not end the other controllers of the process."""
        while not self._stopped.is_set():
            try:
                self.run()
            except Exception:  # noqa: BLE001
                _LOG.exception("fair share: internal error; retrying")
                self._stopped.wait(_MAX_RETRY_SECONDS)

    def run(self) -> None:
        """Repeat until `stop`; errors are logged, and tried again with backoff."""
        failures = 0
        while not self._stopped.is_set():
            self._wake.clear()
            started = time.monotonic()
            try:
                seconds = min(self.once(), _RESYNC_SECONDS)
            except ClusterError as error:
                self._log(str(error))
                failures += 1
                seconds = backoff.delay(failures, _FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS)
                self._stopped.wait(seconds)
                continue
            self._log("")
            failures = 0
            pause = max(_MIN_PAUSE_SECONDS, _PAUSE_FACTOR * (time.monotonic() - started))
            self._wake.wait(seconds)
            self._stopped.wait(pause)

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
            self._try(partial(objects.delete_unchanged, self._session, item), errors)
        for change in decision.changes:
            if self._stopped.is_set():
                break
            _LOG.info("%s: value %s", change.name, change.manifest["value"])
            self._try(partial(self._journal.apply, change), errors)
        self._send_some(decision.remarks)
        if errors:
            raise errors[0]
        if decision.next_recovery is None:
            return _RESYNC_SECONDS
        return max(0.0, decision.next_recovery - self._clock())

    def _decide(self) -> Decision:
        """Read the classes first: what they remember is never newer than the PodGroups."""
        classes = objects.list_all(self._session, kinds.PRIORITY_CLASS)
        try:
            groups = objects.list_all(
                self._session, kinds.POD_GROUP, shape=shapes.of(kinds.POD_GROUP)
            )
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

    def _log(self, problem: str) -> None:
        """Log a problem once, and its end."""
        if problem and problem != self._problem:
            _LOG.warning("fair share: %s; retrying", problem)
        elif self._problem and not problem:
            _LOG.warning("fair share works again")
        self._problem = problem

    def _send_some(self, remarks: Iterable[Remark]) -> None:
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
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = metadata.get("namespace") or "default"
        event = {
            "apiVersion": kinds.EVENT.api_version,
            "kind": kinds.EVENT.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": remark.about["apiVersion"],
                "kind": remark.about["kind"],
                **metadata,
            },
            "type": "Warning",
            "reason": remark.reason,
            "message": remark.message,
            "source": {"component": f"{names.MANAGER}-fairshare"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
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
