"""A watch: the changes of a kind as lines of JSON, from a version on."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable

from kubectl_sky_practice.resources import Json, Resource
from kubectl_sky_practice.selection import Predicate
from kubectl_sky_practice.state import Change, State

_BOOKMARK = 60.0


class Watch:
    """Begins with earlier changes, and has all that come from now on."""

    def __init__(
        self, state: State, resource: Resource, selects: Predicate, earlier: list[Change]
    ) -> None:
        self._state = state
        self._resource = resource
        self._selects = selects
        self._pending = deque(earlier)
        self._wake = asyncio.Event()
        state.listeners.append(self._listen)

    def close(self) -> None:
        if self._listen in self._state.listeners:
            self._state.listeners.remove(self._listen)

    async def lines(
        self,
        seconds: float,
        convert: Callable[[Json], Json],
        *,
        bookmarks: bool,
        initial_bookmark: bool,
    ) -> AsyncIterator[bytes]:
        """Yield one event per line until the timeout. `convert` encodes an object.

        `initial_bookmark` asks for a bookmark after the existing objects.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            while (left := end - loop.time()) > 0:
                lines = [self._event(change, convert) for change in self._take()]
                if initial_bookmark:
                    lines.append(self.bookmark(initial=True))
                    initial_bookmark = False
                if lines:
                    yield b"".join(lines)

                try:
                    await asyncio.wait_for(self._wake.wait(), min(left, _BOOKMARK))
                except TimeoutError:
                    if bookmarks:
                        yield self.bookmark()
        finally:
            self.close()

    def bookmark(self, *, initial: bool = False) -> bytes:
        metadata: Json = {"resourceVersion": str(self._state.version), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        return _line("BOOKMARK", {**kind, "metadata": metadata})

    def _take(self) -> list[Change]:
        self._wake.clear()
        changes = list(self._pending)
        self._pending.clear()
        return changes

    def _event(self, change: Change, convert: Callable[[Json], Json]) -> bytes:
        """Encode a change; for a reader with a selector an object may appear or disappear."""
        now = change.type != "DELETED" and self._selects(change.object)
        before = change.before is not None and self._selects(change.before)
        if not now and not before:
            return b""
        kind = "ADDED" if now else "DELETED"
        if now and before:
            kind = change.type
        return _line(kind, convert(change.object))

    def _listen(self, change: Change) -> None:
        if change.storage == self._resource.storage:
            self._pending.append(change)
            self._wake.set()


def _line(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"
