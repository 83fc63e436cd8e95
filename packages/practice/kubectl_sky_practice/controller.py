"""Controllers: loops that reconcile objects one key at a time, and the events that they record."""

import asyncio
import sys
import time
import traceback
from collections.abc import Iterable

from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.problems import Problem
from kubectl_sky_practice.state import Change, Json, Key

_RETRY_SECONDS = 1.0  # after a request of a controller was refused
_MAX_EVENTS = 10_000  # whose repetitions are counted


class Controller:
    def __init__(self, api: Api) -> None:
        self.api = api
        self._loop = asyncio.get_running_loop()
        self._queue: dict[Key, None] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._delayed: set[Key] = set()
        api.state.listeners.append(self._listen)

    def keys(self, change: Change) -> Iterable[Key]:
        raise NotImplementedError

    def reconcile(self, key: Key) -> float | None:
        """Reconcile an object; return the seconds until the next time, if there is one."""
        raise NotImplementedError

    def replay(self, *storages: str) -> None:
        """Treat existing objects as if they had just been added."""
        for storage in storages:
            for obj in self.api.state.all(storage):
                self._listen(Change("ADDED", storage, self.api.state.version, obj))

    def enqueue(self, key: Key) -> None:
        if not self._queue:
            self._loop.call_soon(self._reconcile_next)
        self._queue[key] = None

    def enqueue_after(self, key: Key, seconds: float) -> None:
        """Reconcile a key later, once for all changes until then."""
        if key not in self._delayed:
            self._delayed.add(key)
            self._loop.call_later(seconds, self._delay_over, key)

    def remove_finalizer(self, storage: str, key: Key, finalizer: str) -> None:
        def edit(obj: Json) -> None:
            finalizers = obj["metadata"].pop("finalizers", None) or ()
            if remaining := [name for name in finalizers if name != finalizer]:
                obj["metadata"]["finalizers"] = remaining

        self.api.change(storage, key, edit)

    def _listen(self, change: Change) -> None:
        for key in self.keys(change):
            self.enqueue(key)

    def _delay_over(self, key: Key) -> None:
        self._delayed.discard(key)
        self.enqueue(key)

    def _reconcile_next(self) -> None:
        key = next(iter(self._queue))
        del self._queue[key]
        if self._queue:
            self._loop.call_soon(self._reconcile_next)

        try:
            delay = self.reconcile(key)
        except Problem as problem:
            print(f"{type(self).__name__} {key}: {problem}", file=sys.stderr)
            delay = _RETRY_SECONDS
        except Exception:  # noqa: BLE001 -- an object must not stop the others
            traceback.print_exc()
            delay = None

        if timer := self._timers.pop(key, None):
            timer.cancel()
        if delay is not None:
            self._timers[key] = self._loop.call_later(max(delay, 0.0), self.enqueue, key)


def owner_reference(owner: Json) -> Json:
    metadata = owner["metadata"]
    names = {"kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    flags = {"controller": True, "blockOwnerDeletion": True}
    return {"apiVersion": owner["apiVersion"], **names, **flags}


def find_controller(obj: Json, kind: str) -> Json:
    """Return the reference to the controller of an object; empty if it is of another kind."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == kind:
            return dict(owner)
    return {}


def record_event(
    api: Api, obj: Json, source: str, reason: str, message: str, kind: str = "Normal"
) -> None:
    """Record an event of an object; a repeated event is only counted."""
    metadata = obj["metadata"]
    event_key = (metadata.get("uid", ""), reason, message)
    namespace = metadata.get("namespace") or "default"
    if api.change("events", (namespace, api.recent_events.get(event_key, "")), _count_again):
        return

    if len(api.recent_events) >= _MAX_EVENTS:
        api.recent_events.clear()
    name = api.recent_events[event_key] = f"{metadata['name']}.{time.time_ns():x}"  # sorts by time

    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"]}
    about |= {key: metadata[key] for key in ("namespace", "uid") if metadata.get(key)}
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": kind,
        "source": {"component": source},
        "count": 1,
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "reportingComponent": source,
        "reportingInstance": "",
    }

    try:
        api.create("events", body, namespace)
    except Problem as problem:
        if problem.code not in (403, 404):  # the namespace is being deleted
            raise


def _count_again(event: Json) -> None:
    event["count"] += 1
    event["lastTimestamp"] = now()
