"""The stored objects: in memory, with their history, and in an SQLite file."""

import json
import sqlite3
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_sky_practice import problems

Json = dict[str, Any]
Key = tuple[str, str]  # namespace and name
_HISTORY = 2000  # changes per kind from which a watch can resume


class Change(NamedTuple):
    """ADDED, MODIFIED or DELETED. Its objects must not be changed."""

    type: str
    storage: str
    version: int
    object: Json
    before: Json | None = None

    @property
    def key(self) -> Key:
        return key(self.object)


def key(obj: Json) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class State:
    """All objects, by kind (`jobs.batch`) and by namespace and name.

    A stored object is never changed: a change stores a new one. Listeners are called after each
    change and must return at once.
    """

    def __init__(self, file: Path) -> None:
        self.listeners: list[Callable[[Change], None]] = []
        self.version = 1
        self._objects: dict[str, dict[Key, Json]] = {}
        self._history: dict[str, deque[Change]] = {}
        self.unsaved: dict[tuple[str, str, str], str | None] = {}
        self._file = sqlite3.connect(file, isolation_level=None)
        self._load()

    def get(self, storage: str, namespace: str, name: str) -> Json | None:
        return self._objects.get(storage, {}).get((namespace, name))

    def all(self, storage: str, namespace: str = "") -> list[Json]:
        objects = self._objects.get(storage, {}).items()
        return [obj for key, obj in objects if not namespace or key[0] == namespace]

    def storages(self) -> list[str]:
        return [*self._objects]

    def put(self, storage: str, obj: Json) -> Json:
        """Store a new version of an object; the caller must not change it any more."""
        before = self.get(storage, *key(obj))
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._objects.setdefault(storage, {})[key(obj)] = obj
        self.unsaved[(storage, *key(obj))] = json.dumps(obj)
        kind = "MODIFIED" if before else "ADDED"
        self._notify(Change(kind, storage, self.version, obj, before))
        return obj

    def drop(self, storage: str, obj: Json) -> Json:
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        last = {**obj, "metadata": metadata}
        del self._objects[storage][key(obj)]
        self.unsaved[(storage, *key(obj))] = None
        self._notify(Change("DELETED", storage, self.version, last, obj))
        return last

    def as_added(self, storage: str) -> list[Change]:
        return [
            Change("ADDED", storage, int(obj["metadata"]["resourceVersion"]), obj)
            for obj in sorted(self.all(storage), key=key)
        ]

    def since(self, storage: str, version: int) -> list[Change]:
        """Return the changes of a kind after a version. Raises Problem if it is too old."""
        history = self._history.get(storage)
        if version < self._oldest or (history and len(history) == _HISTORY):
            oldest = history[0].version if history else self._oldest
            if version < oldest - 1:
                raise problems.expired(version, oldest)
        if not history:
            return []
        changes = list(history)
        return changes[bisect_right(changes, version, key=lambda change: change.version) :]

    def save(self) -> None:
        unsaved = self.unsaved
        self.unsaved = {}
        self._file.execute("BEGIN")
        for path, text in unsaved.items():
            if text is None:
                self._file.execute(
                    "DELETE FROM objects WHERE (kind, namespace, name) = (?,?,?)", path
                )
            else:
                self._file.execute("REPLACE INTO objects VALUES (?,?,?,?)", (*path, text))
        self._file.execute("REPLACE INTO counter VALUES (0, ?)", (self.version,))
        self._file.execute("COMMIT")

    def _notify(self, change: Change) -> None:
        history = self._history.setdefault(change.storage, deque(maxlen=_HISTORY))
        history.append(change)
        for listener in list(self.listeners):
            listener(change)

    def _load(self) -> None:
        self._file.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = OFF;
            CREATE TABLE IF NOT EXISTS objects
                (kind, namespace, name, body, PRIMARY KEY (kind, namespace, name));
            CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, version);
            """
        )
        for storage, namespace, name, body in self._file.execute("SELECT * FROM objects"):
            self._objects.setdefault(storage, {})[namespace, name] = json.loads(body)
        row = self._file.execute("SELECT version FROM counter").fetchone()
        # versions that were answered but not saved before a crash must not be used again
        self.version = row[0] + 100_000 if row else 1
        self._oldest = self.version
