"""Change the value of a PriorityClass crash-safely: delete it and create it again.

`value` is immutable in Kubernetes. Before the class is deleted, a ConfigMap records what will be
created (a redo log). From then on the change is final, and the next process resumes it. Each step
can be repeated, and several controllers may do the same one.
"""

import json
import logging
from contextlib import suppress
from hashlib import sha256
from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Conflict, NotFound
from kubectl_sky.plan.fair_share import LABEL
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from kubectl_sky_server.fairshare.model_decide import Change

Json = dict[str, Any]

REPLACES = "kubectl-sky/fair-share-replaces"  # annotation of a class: the uid of the previous one
_LOG = logging.getLogger(__name__)
_JOURNAL = "journal"
_CLASS = "class"
_UID = "uid"  # keys of the ConfigMap
_MAX_STEPS = 8


# Of a class that is created again.
_DROPPED = frozenset(
    {
        *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
    }
)


def entry(change: Change) -> Json:
    assert change.existing is not None
    uid = change.existing["metadata"]["uid"]
    metadata = {
        key: value for key, value in change.manifest["metadata"].items() if key not in _DROPPED
    }
    annotations = metadata["annotations"] | {REPLACES: uid}
    manifest = change.manifest | {"metadata": metadata | {"annotations": annotations}}
    digest = sha256(change.name.encode()).hexdigest()[:16]
    return {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": {"name": f"fair-share-{digest}", "labels": {LABEL: _JOURNAL}},
        "data": {_UID: uid, _CLASS: json.dumps(manifest)},
    }


class Journal:
    """The writes of fair share, with the journal in one namespace."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace

    def unfinished(self) -> list[Json]:
        """Return the ConfigMaps of changes that were not finished. Raises ClusterError."""
        selector = f"{LABEL}={_JOURNAL}"
        return objects.list_manifests(
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
        try:
            uid = item["data"][_UID]
            manifest = json.loads(item["data"][_CLASS])
            name = manifest["metadata"]["name"]
        except (KeyError, TypeError, ValueError):
            _LOG.warning("deleting the invalid ConfigMap %s", item["metadata"]["name"])
            objects.delete_by_uid(self._session, kinds.CONFIG_MAP, item["metadata"])
            return

        for _ in range(_MAX_STEPS):
            existing = _get(self._session, kinds.PRIORITY_CLASS, name)
            if existing is None:
                with suppress(Conflict):  # of another client: the next step looks at it
                    objects.create(self._session, manifest)
            elif (existing["metadata"].get("annotations") or {}).get(REPLACES) == uid:
                objects.delete_by_uid(self._session, kinds.CONFIG_MAP, item["metadata"])
                return
            else:
                if existing["metadata"]["uid"] != uid:
                    self._check_unfinished(item, name)
                objects.delete_by_uid(self._session, kinds.PRIORITY_CLASS, existing["metadata"])
        raise Conflict(f'PriorityClass "{name}" is changed by another client repeatedly')

    def _check_unfinished(self, item: Json, name: str) -> None:
        """Raise Conflict if another controller finished the entry."""
        metadata = item["metadata"]
        current = _get(self._session, kinds.CONFIG_MAP, metadata["name"], metadata["namespace"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            raise Conflict(f'PriorityClass "{name}" was changed by another controller')


def _get(session: Session, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
    try:
        return objects.get_manifest(session, kind, name, namespace)
    except NotFound:
        return None
