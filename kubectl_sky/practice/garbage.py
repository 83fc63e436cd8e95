"""Removes what nobody needs any more: dependents, all of a namespace or a CRD, old events."""

from collections.abc import Iterator
from datetime import UTC, datetime

from kubectl_sky.practice.api import Api, Deletion, now
from kubectl_sky.practice.controller import Controller
from kubectl_sky.practice.state import Change, Json, Key
from kubectl_sky.practice.state import key as key_of

_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
# What each namespace has from its beginning, and again when somebody removes it.
_ALWAYS = {"serviceaccounts": "default", "configmaps": "kube-root-ca.crt"}
_TRUST = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal"
    " endpoints such as the internal service IP or kubernetes.default.svc. No other usage is"
    " guaranteed across distributions of Kubernetes clusters."
)
_EVENTS_LAST = 3600  # seconds
Place = tuple[str, str, str]  # kind, namespace and name


def _owners(obj: Json) -> list[Json]:
    return list(obj["metadata"].get("ownerReferences") or ())


def _finalizers(obj: Json) -> list[str]:
    return list(obj["metadata"].get("finalizers") or ())


def _going(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


class Garbage(Controller):
    """The garbage collector. Its keys are a kind, and a namespace and a name with `/` between."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._places: dict[str, Place] = {}  # by uid
        self._dependents: dict[str, set[Place]] = {}  # by the uid of their owner
        for resource in api.resources.all():
            self.replay(resource.storage)
        self._forget_events()

    def keys(self, change: Change) -> Iterator[Key]:
        """What has owners, dependents or content, when something happens to it or to them."""
        obj, place = change.object, (change.storage, *change.key)
        uid = obj["metadata"]["uid"]
        gone, before = change.type == "DELETED", change.before
        self._places[uid] = place
        moved = before is None or _owners(before) != _owners(obj)
        for owner in _owners(before) if before and (gone or moved) else ():
            self._dependents.get(owner["uid"], set()).discard(place)
            yield from self._keys(owner["uid"])
        for owner in () if gone else _owners(obj):
            self._dependents.setdefault(owner["uid"], set()).add(place)
        if gone:
            del self._places[uid]
            for dependent in self._dependents.pop(uid, ()):
                yield _key(dependent)
            yield from self._containers(place)
        elif moved or _going(obj):
            yield _key(place)

    def _keys(self, uid: str) -> Iterator[Key]:
        if uid in self._places:
            yield _key(self._places[uid])

    def _containers(self, place: Place) -> Iterator[Key]:
        """Yield the namespace and the CRD of an object that went, if they wait for it."""
        storage, namespace, own = place
        for kind, name in (("namespaces", namespace), (_CRDS, storage)):
            found = self.api.state.get(kind, "", name)
            if found and (_going(found) or _ALWAYS.get(storage) == own):
                yield kind, f"/{name}"

    def reconcile(self, key: Key) -> None:
        """Do what the deletion of an object or of its owners asks for."""
        storage, (namespace, _, name) = key[0], key[1].partition("/")
        obj = self.api.state.get(storage, namespace, name)
        if not obj:
            return
        if storage == "namespaces":
            self._namespace(name, obj)
        if storage == _CRDS:
            self._definition(name, obj)
        finalizers = _finalizers(obj) if _going(obj) else []
        if _FOREGROUND in finalizers:
            self._clear(storage, obj)
        elif _ORPHAN in finalizers:
            uid = obj["metadata"]["uid"]
            for place in list(self._dependents.get(uid, ())):
                self._disown(place, {uid})
            self.remove_finalizer(storage, key_of(obj), _ORPHAN)
        elif _owners(obj) and not _going(obj):
            self._judge((storage, namespace, name), obj)

    def _clear(self, storage: str, obj: Json) -> None:
        """Delete the dependents of an object that is to go after them."""
        blocked, uid = False, obj["metadata"]["uid"]
        for place in list(self._dependents.get(uid, ())):
            dependent = self.api.state.get(*place)
            if dependent and not _going(dependent):
                self._judge(place, dependent)
        for place in self._dependents.get(uid, ()):
            dependent = self.api.state.get(*place)
            for owner in _owners(dependent) if dependent else ():
                blocked |= owner["uid"] == uid and bool(owner.get("blockOwnerDeletion"))
        if not blocked:
            self.remove_finalizer(storage, key_of(obj), _FOREGROUND)

    def _judge(self, place: Place, obj: Json) -> None:
        """Delete an object that has lost its owners; where it has another, let go of the lost."""
        lost = {owner["uid"] for owner in _owners(obj) if not self._holds(owner["uid"], place[1])}
        if lost == {owner["uid"] for owner in _owners(obj)}:
            policies = {_ORPHAN: "Orphan", _FOREGROUND: "Foreground"}
            kept = [policies[one] for one in _finalizers(obj) if one in policies]
            self.api.delete(place[0], place[1:], Deletion((kept or ["Background"])[0]))
        elif lost:
            self._disown(place, lost)

    def _holds(self, uid: str, namespace: str) -> bool:
        """Say whether an owner is there, in the namespace or in none, and does not go with all."""
        place = self._places.get(uid)
        owner = self.api.state.get(*place) if place else None
        if not place or not owner or place[1] not in ("", namespace):
            return False
        return not (_going(owner) and _FOREGROUND in _finalizers(owner))

    def _disown(self, place: Place, lost: set[str]) -> None:
        def edit(obj: Json) -> None:
            left = [owner for owner in _owners(obj) if owner["uid"] not in lost]
            obj["metadata"]["ownerReferences"] = left
            if not left:
                del obj["metadata"]["ownerReferences"]

        self.api.change(place[0], place[1:], edit)

    def _namespace(self, name: str, namespace: Json) -> None:
        if not _going(namespace):
            for storage, always in _ALWAYS.items():
                if not self.api.state.get(storage, name, always):
                    self.api.create(storage, self._first(always), name)
            return
        storages = {one.storage for one in self.api.resources.all() if one.namespaced}
        if not self._empty(
            [(one, obj) for one in storages for obj in self.api.state.all(one, name)]
        ):
            return
        self.api.change("namespaces", ("", name), lambda it: it["spec"].update(finalizers=[]))

    def _first(self, name: str) -> Json:
        """Return what a namespace has from its beginning."""
        if name == "default":
            return {"metadata": {"name": name}}
        file = self.api.folder / "tls.crt"
        metadata = {"name": name, "annotations": {"kubernetes.io/description": _TRUST}}
        data = {"ca.crt": file.read_text(encoding="utf-8") if file.exists() else ""}
        return {"metadata": metadata, "data": data}

    def _empty(self, content: list[tuple[str, Json]]) -> bool:
        """Delete objects; say whether none is left."""
        state = self.api.state
        for storage, obj in content:
            if not _going(obj) and state.get(storage, *key_of(obj)):
                self.api.delete(storage, key_of(obj))
        return not any(state.get(storage, *key_of(obj)) for storage, obj in content)

    def _definition(self, name: str, definition: Json) -> None:
        if not _going(definition):
            self.api.change(_CRDS, ("", name), _establish)
        elif self._empty([(name, obj) for obj in self.api.state.all(name)]):
            self.api.resources.forget(definition)
            self.remove_finalizer(_CRDS, key_of(definition), _CLEANUP)

    def _forget_events(self) -> None:
        self._loop.call_later(60, self._forget_events)
        oldest = datetime.fromtimestamp(datetime.now(UTC).timestamp() - _EVENTS_LAST, UTC)
        for event in self.api.state.all("events"):
            last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
            if datetime.fromisoformat(last) < oldest:
                self.api.delete("events", key_of(event))


def _key(place: Place) -> Key:
    return place[0], f"{place[1]}/{place[2]}"


def _establish(definition: Json) -> None:
    """Say that a CRD is served."""
    status, spec = definition.setdefault("status", {}), definition["spec"]
    status["acceptedNames"] = spec["names"]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    old = status.get("storedVersions") or []
    status["storedVersions"] = old + [one for one in stored if one not in old]
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
