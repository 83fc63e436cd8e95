"""The garbage collector: deletes dependents, the content of namespaces and CRDs, and old events."""

from collections.abc import Iterator
from datetime import UTC, datetime

from kubectl_sky_practice.api import Api, Deletion, now
from kubectl_sky_practice.controller import Controller
from kubectl_sky_practice.state import Change, Json, Key
from kubectl_sky_practice.state import key as key_of

_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_FOREGROUND = "foregroundDeletion"
_EVENT_TTL_SECONDS = 3600
ObjectKey = tuple[str, str, str]  # kind, namespace and name


def _owners(obj: Json) -> list[Json]:
    return list(obj["metadata"].get("ownerReferences") or ())


def _finalizers(obj: Json) -> list[str]:
    return list(obj["metadata"].get("finalizers") or ())


def _is_deleted(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


class Garbage(Controller):
    """The garbage collector. Its keys are a kind and `NAMESPACE/NAME`."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._object_keys: dict[str, ObjectKey] = {}  # by uid
        self._dependents: dict[str, set[ObjectKey]] = {}  # by the uid of their owner
        for resource in api.resources.all():
            self.replay(resource.storage)
        self._forget_events()

    def keys(self, change: Change) -> Iterator[Key]:
        obj = change.object
        object_key = (change.storage, *change.key)
        uid = obj["metadata"]["uid"]
        gone = change.type == "DELETED"
        before = change.before

        self._object_keys[uid] = object_key
        moved = before is None or _owners(before) != _owners(obj)

        for owner in _owners(before) if before and (gone or moved) else ():
            self._dependents.get(owner["uid"], set()).discard(object_key)
            yield from self._keys(owner["uid"])
        for owner in () if gone else _owners(obj):
            self._dependents.setdefault(owner["uid"], set()).add(object_key)

        if gone:
            del self._object_keys[uid]
            for dependent in self._dependents.pop(uid, ()):
                yield _key(dependent)
            yield from self._containers(object_key)
        elif moved or _is_deleted(obj):
            yield _key(object_key)

    def _keys(self, uid: str) -> Iterator[Key]:
        if uid in self._object_keys:
            yield _key(self._object_keys[uid])

    def _containers(self, object_key: ObjectKey) -> Iterator[Key]:
        """Return the namespace and the CRD of a deleted object, if they wait for that."""
        storage, namespace, name = object_key
        for kind, parent in (("namespaces", namespace), (_CRDS, storage)):
            obj = self.api.state.get(kind, "", parent)
            if obj and (_is_deleted(obj) or (storage, name) == ("serviceaccounts", "default")):
                yield kind, f"/{parent}"

    def reconcile(self, key: Key) -> None:
        storage = key[0]
        (namespace, _, name) = key[1].partition("/")
        obj = self.api.state.get(storage, namespace, name)
        if not obj:
            return
        if storage == "namespaces":
            self._namespace(name, obj)
        if storage == _CRDS:
            self._definition(name, obj)
        finalizers = _finalizers(obj) if _is_deleted(obj) else []
        if _FOREGROUND in finalizers:
            self._delete_dependents(storage, obj)
        elif _owners(obj) and not _is_deleted(obj):
            self._check_owners((storage, namespace, name), obj)

    def _delete_dependents(self, storage: str, obj: Json) -> None:
        blocked = False
        uid = obj["metadata"]["uid"]
        for object_key in list(self._dependents.get(uid, ())):
            dependent = self.api.state.get(*object_key)
            if dependent and not _is_deleted(dependent):
                self._check_owners(object_key, dependent)
        for object_key in self._dependents.get(uid, ()):
            dependent = self.api.state.get(*object_key)
            for owner in _owners(dependent) if dependent else ():
                blocked |= owner["uid"] == uid and bool(owner.get("blockOwnerDeletion"))
        if not blocked:
            self.remove_finalizer(storage, key_of(obj), _FOREGROUND)

    def _check_owners(self, object_key: ObjectKey, obj: Json) -> None:
        lost = {
            owner["uid"]
            for owner in _owners(obj)
            if not self._owner_exists(owner["uid"], object_key[1])
        }
        if lost == {owner["uid"] for owner in _owners(obj)}:
            policy = "Foreground" if _FOREGROUND in _finalizers(obj) else "Background"
            self.api.delete(object_key[0], object_key[1:], Deletion(policy))
        elif lost:
            self._disown(object_key, lost)

    def _owner_exists(self, uid: str, namespace: str) -> bool:
        object_key = self._object_keys.get(uid)
        owner = self.api.state.get(*object_key) if object_key else None
        if not object_key or not owner or object_key[1] not in ("", namespace):
            return False
        return not (_is_deleted(owner) and _FOREGROUND in _finalizers(owner))

    def _disown(self, object_key: ObjectKey, lost: set[str]) -> None:
        def edit(obj: Json) -> None:
            left = [owner for owner in _owners(obj) if owner["uid"] not in lost]
            obj["metadata"]["ownerReferences"] = left
            if not left:
                del obj["metadata"]["ownerReferences"]

        self.api.change(object_key[0], object_key[1:], edit)

    def _namespace(self, name: str, namespace: Json) -> None:
        if not _is_deleted(namespace):
            if not self.api.state.get("serviceaccounts", name, "default"):
                self.api.create("serviceaccounts", {"metadata": {"name": "default"}}, name)
            return
        storages = {kind.storage for kind in self.api.resources.all() if kind.namespaced}
        if not self._empty(
            [(kind, obj) for kind in storages for obj in self.api.state.all(kind, name)]
        ):
            return
        self.api.change("namespaces", ("", name), lambda it: it["spec"].update(finalizers=[]))

    def _empty(self, content: list[tuple[str, Json]]) -> bool:
        state = self.api.state
        for storage, obj in content:
            if not _is_deleted(obj) and state.get(storage, *key_of(obj)):
                self.api.delete(storage, key_of(obj))
        return not any(state.get(storage, *key_of(obj)) for storage, obj in content)

    def _definition(self, name: str, definition: Json) -> None:
        if not _is_deleted(definition):
            self.api.change(_CRDS, ("", name), _establish)
        elif self._empty([(name, obj) for obj in self.api.state.all(name)]):
            self.api.resources.forget(definition)
            self.remove_finalizer(_CRDS, key_of(definition), _CLEANUP)

    def _forget_events(self) -> None:
        self._loop.call_later(60, self._forget_events)
        oldest = datetime.fromtimestamp(datetime.now(UTC).timestamp() - _EVENT_TTL_SECONDS, UTC)
        for event in self.api.state.all("events"):
            last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
            if datetime.fromisoformat(last) < oldest:
                self.api.delete("events", key_of(event))


def _key(object_key: ObjectKey) -> Key:
    return object_key[0], f"{object_key[1]}/{object_key[2]}"


def _establish(definition: Json) -> None:
    status = definition.setdefault("status", {})
    spec = definition["spec"]
    status["acceptedNames"] = spec["names"]

    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    old = status.get("storedVersions") or []
    status["storedVersions"] = old + [name for name in stored if name not in old]

    if not status.get("conditions"):
        definition["metadata"]["finalizers"] = [*_finalizers(definition), _CLEANUP]
        reasons = (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
        status["conditions"] = [
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": now(),
                "reason": reason,
                "message": message,
            }
            for kind, reason, message in reasons
        ]
