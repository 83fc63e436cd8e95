"""A watch: the changes of a kind as lines of JSON, from a version on."""

import asyncio
import json
import random
from collections import deque
from collections.abc import AsyncIterator, Callable

from kubectl_sky.practice import problems
from kubectl_sky.practice.resources import Json, Resource
from kubectl_sky.practice.selection import Wanted
from kubectl_sky.practice.state import Change, State

_BOOKMARK = 60.0
_BEHIND = 20_000  # changes that a reader may be behind; then he has to begin again


class Watch:
    """One reader of the changes of a kind."""

    def __init__(self, state: State, resource: Resource, wanted: Wanted) -> None:
        self._state = state
        self._resource = resource
        self._wanted = wanted
        self._pending: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._lost = False
        state.listeners.append(self._listen)

    def close(self) -> None:
        """Listen no more."""
        if self._listen in self._state.listeners:
            self._state.listeners.remove(self._listen)

    def begin(self, changes: list[Change]) -> None:
        """Begin with what has changed already."""
        self._pending.extend(changes)

    async def lines(
        self, seconds: float, write: Callable[[Json], Json], *, bookmarks: bool, told: bool
    ) -> AsyncIterator[bytes]:
        """Yield an event a line until the time is over. `write` makes of an object what is sent.

        `told` asks for a bookmark after the objects that are there already.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            while (left := end - loop.time()) > 0:
                lines = [self._event(change, write) for change in self._taken()]
                if told:
                    lines.append(self.bookmark(initial=True))
                    told = False
                if lines:
                    yield b"".join(lines)
                if self._lost:
                    gone = problems.expired(0, self._state.version)
                    yield _line("ERROR", gone.status())
                    return
                try:
                    await asyncio.wait_for(self._wake.wait(), min(left, _BOOKMARK))
                except TimeoutError:
                    if bookmarks:
                        yield self.bookmark()
        finally:
            self.close()

    def bookmark(self, *, initial: bool = False) -> bytes:
        """Return the event that only tells how far this is."""
        metadata: Json = {"resourceVersion": str(self._state.version), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        return _line("BOOKMARK", {**kind, "metadata": metadata})

    def _taken(self) -> list[Change]:
        self._wake.clear()
        taken = list(self._pending)
        self._pending.clear()
        return taken

    def _event(self, change: Change, write: Callable[[Json], Json]) -> bytes:
        """What a change is to one who sees only some objects: they may come and go for him."""
        now = change.type != "DELETED" and self._wanted(change.object)
        before = change.before is not None and self._wanted(change.before)
        if not now and not before:
            return b""
        kind = change.type if now and before else "ADDED" if now else "DELETED"
        return _line(kind, write(change.object))

    def _listen(self, change: Change) -> None:
        if change.storage != self._resource.storage or self._lost:
            return
        self._pending.append(change)
        self._wake.set()
        if len(self._pending) > _BEHIND:
            self._lost = True
            self._pending.clear()


def _line(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def usual_time() -> float:
    """Return how long a watch lasts for which nobody said so, as on the real server."""
    return random.uniform(1800, 3600)
