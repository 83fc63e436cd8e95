"""What a page is sent of one list, or of several as one: the rows of a window."""

from collections.abc import AsyncIterator, Mapping, Sequence
from operator import itemgetter

import msgspec
from msgspec import Raw, Struct

from kubectl_sky_server.rest.events import format_event
from kubectl_sky_server.rest.identity import Caller
from kubectl_sky_server.rest.live import Entry, Finding, LiveList, follow, list_groups
from kubectl_sky_server.rest.windows import Found, Key, Row, Window, join


class _Rows(Struct, frozen=True):
    """The rows of a window, as far as they have changed."""

    order: list[str]
    counts: Mapping[str, int]
    tasks: list[Raw]
    pipelines: list[Raw]


def view(
    lists: Sequence[LiveList], caller: Caller, window: Window, seconds: float
) -> AsyncIterator[bytes]:
    """Yield events: the rows of a window of all lists, and when they change."""
    return follow(lists, caller, _View(lists, window).next, seconds)


class _View:
    """What one page has been sent."""

    def __init__(self, lists: Sequence[LiveList], window: Window) -> None:
        self._lists = lists
        self._window = window
        self._parts: list[Finding] = []  # of each list
        self._found: Found | None = None
        self._sent: dict[Key, int] = {}  # the versions of the rows

    async def next(self) -> bytes:
        """Return what has changed of the rows; empty if nothing has."""
        if not all(live.ready for live in self._lists):
            return b""
        parts = [await live.find(self._window) for live in self._lists]
        if parts == self._parts:
            return b""
        self._parts = parts

        entries: dict[Key, Entry] = {}
        for live, part in zip(self._lists, parts, strict=True):
            entries |= live.entries(part.found.keys)
        found = join(self._window, [part.found for part in parts], _list_newest_first(entries))
        tasks = {key: entries[key] for key in found.keys}
        return self._format_changes(found, tasks, list_groups(tasks, entries))

    def _format_changes(
        self, found: Found, tasks: Mapping[Key, Entry], groups: Mapping[Key, Entry]
    ) -> bytes:
        versions = {key: it.version for key, it in (*tasks.items(), *groups.items())}
        changed = {key for key, version in versions.items() if self._sent.get(key) != version}
        before = self._found
        self._found = found
        self._sent = versions
        if before == found and not changed:
            return b""
        rows = _Rows(
            [f"{namespace}/{task_id}" for _, namespace, task_id in found.keys],
            found.counts,
            [Raw(it.text) for key, it in tasks.items() if key in changed and it.text],
            [Raw(it.text) for key, it in groups.items() if key in changed and it.text],
        )
        return format_event("rows", msgspec.json.encode(rows))


def _list_newest_first(entries: Mapping[Key, Entry]) -> list[tuple[Key, Row]]:
    tasks = [(it.position, key, it.row) for key, it in entries.items() if it.position and it.row]
    return [(key, row) for _, key, row in sorted(tasks, key=itemgetter(0), reverse=True)]
