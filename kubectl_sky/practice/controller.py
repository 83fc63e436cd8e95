"""A loop that brings objects to where they should be, one key at a time."""

import asyncio
import sys
import traceback
from collections.abc import Iterable

from kubectl_sky.practice.api import Api
from kubectl_sky.practice.problems import Problem
from kubectl_sky.practice.state import Change, Json, Key

_AGAIN = 1.0  # seconds until a key is looked at again after something was refused


class Controller:
    """Reconciles each key that a change makes worth a look; once for any number of changes."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[Key, None] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._expected: set[Key] = set()
        api.state.listeners.append(self._listen)

    def keys(self, change: Change) -> Iterable[Key]:
        """Return what a change makes worth a look."""
        raise NotImplementedError

    def reconcile(self, key: Key) -> float | None:
        """Do what is to be done; return after how many seconds to look again, if at all."""
        raise NotImplementedError

    def replay(self, *storages: str) -> None:
        """Look at what is there already, as if it had just come."""
        for storage in storages:
            for obj in self.api.state.all(storage):
                self._listen(Change("ADDED", storage, self.api.state.version, obj))

    def look(self, key: Key) -> None:
        """Reconcile a key soon."""
        if not self._dirty:
            self._loop.call_soon(self._work)
        self._dirty[key] = None

    def expect(self, key: Key, seconds: float) -> None:
        """Reconcile a key after a while, once for all that happens until then."""
        if key not in self._expected:
            self._expected.add(key)
            self._loop.call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        self._expected.discard(key)
        self.look(key)

    def finalize(self, storage: str, place: Key, finalizer: str) -> None:
        """Take a finalizer from an object, which may go then."""

        def edit(obj: Json) -> None:
            left = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
            obj["metadata"].pop("finalizers", None)
            if left:
                obj["metadata"]["finalizers"] = left

        self.api.change(storage, place, edit)

    def _listen(self, change: Change) -> None:
        for key in self.keys(change):
            self.look(key)

    def _work(self) -> None:
        key = next(iter(self._dirty))
        del self._dirty[key]
        if self._dirty:
            self._loop.call_soon(self._work)
        try:
            again = self.reconcile(key)
        except Problem as problem:
            print(f"{type(self).__name__} {key}: {problem}", file=sys.stderr)
            again = _AGAIN
        except Exception:  # noqa: BLE001 -- one object must not stop all others
            traceback.print_exc()
            again = None
        timer = self._timers.pop(key, None)
        if timer:
            timer.cancel()
        if again is not None:
            self._timers[key] = self._loop.call_later(max(again, 0.0), self._later, key)

    def _later(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.look(key)
