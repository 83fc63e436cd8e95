"""Change the value of a PriorityClass crash-safely: delete it and create it again.

`value` is immutable in Kubernetes. Before the class is deleted, a ConfigMap records what will be
created (a redo log). From then on the change is final, and the next process resumes it. Each step
can be repeated, and several controllers may do the same one.
"""

import json
import logging
from contextlib import suppress
from enum import Enum
from hashlib import sha256
from typing import Any

from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Conflict, NotFound
from kubectl_sky.fairshare.model_decide import SYSTEM, Change, recreated
from kubectl_sky.fairshare.model_state import LABEL, LISTED, OWNED
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind

Json = dict[str, Any]

REPLACES = "kubectl-sky/fair-share-replaces"  # annotation of a class: the uid of the previous one
_LOG = logging.getLogger(__name__)
_JOURNAL = "journal"
_CLASS, _UID = "class", "uid"  # keys of the ConfigMap
_MAX_STEPS = 8


class Step(Enum):
    """What to do next for an entry of the journal."""

    DELETE = "delete the class"
    CREATE = "create the class"
    CLEAR = "delete the entry"


def entry(change: Change) -> Json:
    """Return the ConfigMap for a change of a value."""
    assert change.existing is not None
    uid = change.existing["metadata"]["uid"]
    manifest = recreated(change.manifest)
    annotations = manifest["metadata"]["annotations"] | {REPLACES: uid}
    manifest = manifest | {"metadata": manifest["metadata"] | {"annotations": annotations}}
    digest = sha256(change.name.encode()).hexdigest()[:16]
    return {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": {"name": f"fair-share-{digest}", "labels": {LABEL: _JOURNAL}},
        "data": {_UID: uid, _CLASS: json.dumps(manifest)},
    }


def next_step(uid: str, existing: Json | None) -> Step:
    """Return the next step of the entry that replaces the class with this uid."""
    if existing is None:
        return Step.CREATE
    annotations = existing["metadata"].get("annotations") or {}
    return Step.CLEAR if annotations.get(REPLACES) == uid else Step.DELETE


class Entry(Struct, frozen=True):
    """A change of the journal: the class to create, in place of the one with a uid."""

    metadata: Json  # of the ConfigMap
    uid: str
    manifest: Json

    @classmethod
    def read(cls, item: Json) -> "Entry | None":
        """Read a ConfigMap; None if it is not one that `entry` made."""
        data = item.get("data") or {}
        try:
            uid, manifest = data[_UID], json.loads(data[_CLASS])
            metadata = manifest["metadata"]
            is_ours = metadata["labels"][LABEL] in (OWNED, LISTED)
            allowed = is_ours and not metadata["name"].startswith(SYSTEM)
            known = manifest["kind"] == kinds.PRIORITY_CLASS.kind
            replaces = metadata["annotations"][REPLACES] == uid
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        return cls(item["metadata"], uid, manifest) if allowed and known and replaces else None

    @property
    def name(self) -> str:
        """The name of the class."""
        return str(self.manifest["metadata"]["name"])


class Journal:
    """The writes of fair share, with the journal in one namespace."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace

    def unfinished(self) -> list[Json]:
        """Return the ConfigMaps of changes that were not finished. Raises ClusterError."""
        selector = f"{LABEL}={_JOURNAL}"
        return objects.list_all(
            self._session, kinds.CONFIG_MAP, self._namespace, label_selector=selector
        )

    def apply(self, change: Change) -> None:
        """Make a change. Raises Conflict if another client makes one, too."""
        if change.existing is None:
            objects.create(self._session, change.manifest)
        elif change.replaces:
            item = entry(change)
            item["metadata"]["namespace"] = self._namespace
            self.finish(objects.create(self._session, item))
        else:
            metadata = change.manifest["metadata"]
            fields = ("labels", "annotations", "resourceVersion")
            body = {"metadata": {field: metadata[field] for field in fields}}
            objects.patch_by_uid(self._session, kinds.PRIORITY_CLASS, metadata, body)

    def finish(self, item: Json) -> None:
        """Take all remaining steps of an entry; an invalid one is deleted.

        Raises Conflict if another client undoes them.
        """
        change = Entry.read(item)
        if change is None:
            _LOG.warning("deleting the invalid ConfigMap %s", item["metadata"]["name"])
            objects.delete_by_uid(self._session, kinds.CONFIG_MAP, item["metadata"])
            return
        for _ in range(_MAX_STEPS):
            existing = _existing(self._session, kinds.PRIORITY_CLASS, change.name)
            step = next_step(change.uid, existing)
            if step is Step.CLEAR:
                objects.delete_by_uid(self._session, kinds.CONFIG_MAP, change.metadata)
                return
            if step is Step.CREATE:
                with suppress(Conflict):  # of another client: the next step looks at it
                    objects.create(self._session, change.manifest)
            elif existing:
                self._delete(change, existing)
        raise Conflict(f'PriorityClass "{change.name}" is changed by another client repeatedly')

    def _delete(self, change: Entry, existing: Json) -> None:
        """Delete the class. Raises Conflict if another controller finished the entry."""
        if existing["metadata"]["uid"] != change.uid:
            metadata = change.metadata
            item = _existing(
                self._session, kinds.CONFIG_MAP, metadata["name"], metadata["namespace"]
            )
            if item is None or item["metadata"]["uid"] != metadata["uid"]:
                raise Conflict(f'PriorityClass "{change.name}" was changed by another controller')
        objects.delete_by_uid(self._session, kinds.PRIORITY_CLASS, existing["metadata"])


def _existing(session: Session, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
    try:
        return objects.get(session, kind, name, namespace)
    except NotFound:
        return None
