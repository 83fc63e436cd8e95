"""The objects of the practice cluster: in memory, with their history, and in a file."""

import json
import sqlite3
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_sky.practice import problems

Json = dict[str, Any]
Key = tuple[str, str]  # namespace and name
_HISTORY = 2000  # changes of a kind that a watch can be resumed from


class Change(NamedTuple):
    """What became of an object: ADDED, MODIFIED or DELETED. Nobody changes the objects."""

    type: str
    storage: str
    version: int
    object: Json
    before: Json | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return key(self.object)


def key(obj: Json) -> Key:
    """Return the namespace and the name of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class State:
    """All objects, by kind (`jobs.batch`) and by namespace and name.

    An object that is stored is never changed again: a change stores a new one. Listeners are
    called after each change, and must only take note of it.
    """

    def __init__(self, file: Path) -> None:
        self.listeners: list[Callable[[Change], None]] = []
        self.version = 1
        self._objects: dict[str, dict[Key, Json]] = {}
        self._history: dict[str, deque[Change]] = {}
        self._unsaved: dict[tuple[str, str, str], str | None] = {}
        self._file = sqlite3.connect(file, isolation_level=None)
        self._load()

    def get(self, storage: str, namespace: str, name: str) -> Json | None:
        """Return an object, or None."""
        return self._objects.get(storage, {}).get((namespace, name))

    def all(self, storage: str, namespace: str = "") -> list[Json]:
        """Return all objects of a kind, or those of a namespace, in no order."""
        found = self._objects.get(storage, {})
        if not namespace:
            return list(found.values())
        return [obj for (where, _), obj in found.items() if where == namespace]

    def put(self, storage: str, obj: Json) -> Json:
        """Store an object, which belongs to the state from then on, as its newest version."""
        before = self.get(storage, *key(obj))
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._objects.setdefault(storage, {})[key(obj)] = obj
        self._unsaved[(storage, *key(obj))] = json.dumps(obj)
        kind = "MODIFIED" if before else "ADDED"
        self._tell(Change(kind, storage, self.version, obj, before))
        return obj

    def drop(self, storage: str, obj: Json) -> Json:
        """Remove an object; return its last version."""
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        last = {**obj, "metadata": metadata}
        del self._objects[storage][key(obj)]
        self._unsaved[(storage, *key(obj))] = None
        self._tell(Change("DELETED", storage, self.version, last, obj))
        return last

    def as_added(self, storage: str) -> list[Change]:
        """Return all objects of a kind as if they had just come."""
        return [
            Change("ADDED", storage, int(obj["metadata"]["resourceVersion"]), obj)
            for obj in sorted(self.all(storage), key=key)
        ]

    def since(self, storage: str, version: int) -> list[Change]:
        """Return the changes of a kind after a version. Raises Problem when it is too long ago."""
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
        """Write what has changed to the file."""
        unsaved, self._unsaved = self._unsaved, {}
        self._file.execute("BEGIN")
        for where, text in unsaved.items():
            if text is None:
                self._file.execute(
                    "DELETE FROM objects WHERE (kind, namespace, name) = (?,?,?)", where
                )
            else:
                self._file.execute("REPLACE INTO objects VALUES (?,?,?,?)", (*where, text))
        self._file.execute("REPLACE INTO counter VALUES (0, ?)", (self.version,))
        self._file.execute("COMMIT")

    @property
    def unsaved(self) -> bool:
        """Whether the file is behind."""
        return bool(self._unsaved)

    def _tell(self, change: Change) -> None:
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
        # what was answered but not yet saved when it was killed must not come again
        self.version = row[0] + 100_000 if row else 1
        self._oldest = self.version
