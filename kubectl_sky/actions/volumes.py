"""`volumes`: claims with a name and an owner."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubectl_sky import kinds, names
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import UserError
from kubectl_sky.facts import KnownClaim
from kubectl_sky.observe import volumes
from kubectl_sky.observe.difference import Difference, differences
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.plan.claim import claim
from kubectl_sky.render import manifests
from kubectl_sky.spec import quantity
from kubectl_sky.spec.volume import Storage, VolumeFile
from kubectl_sky.users import User

_SAME = "unchanged"
_CHANGEABLE = ("spec.resources", "metadata.labels")  # in a claim that is there


def create(
    session: Session, user: User, name: str, volume_id: str, storage: Storage
) -> VolumeStatus:
    """Make a volume. Raises UserError, before anything is sent, for a name that cannot be."""
    decided = claim(user, session.namespace, name, volume_id, storage)
    manifest = manifests.claim(decided)
    same = [v for v in listing(session, Scope(session.namespace, user)) if v.name == name]
    if same:
        raise UserError(
            f"you have a volume {name!r} already, {same[0].id} of {same[0].size}",
            "choose another name or delete that one",
        )
    return volumes.volume(objects.create(session, manifest.object))


@dataclass(frozen=True)
class AppliedVolume:
    """A volume as it is now, and what was done: created, configured or unchanged."""

    volume: VolumeStatus
    done: str


def apply(
    session: Session, user: User, wanted: VolumeFile, volume_id: str, dry_run: str
) -> AppliedVolume:
    """Make a volume what its file says; `dry_run` is none, client or server.

    Raises UserError for what cannot be changed in a volume that is there.
    """
    claims = objects.list_all(session, kinds.PVC, session.namespace)
    if wanted.storage is None:
        return AppliedVolume(volumes.volume(_existing(session, user, wanted.name, claims)), _SAME)
    of_that_name = [
        one
        for one in Scope(session.namespace, user).own(claims)
        if one["metadata"].get("labels", {}).get(names.VOLUME) == "true"
        and volumes.volume(one).name == wanted.name
    ]
    if not of_that_name:
        decided = claim(user, session.namespace, wanted.name, volume_id, wanted.storage)
        made = manifests.claim(decided).object
        sent = (
            made
            if dry_run == "client"
            else objects.create(session, made, dry_run=dry_run == "server")
        )
        return AppliedVolume(volumes.volume(sent), "created")
    return _changed(session, user, wanted, of_that_name[0], dry_run)


def _existing(session: Session, user: User, name: str, claims: Sequence[Json]) -> Json:
    known = volumes.known(claims, user).get(name)
    if not known:
        raise UserError(
            f"there is no claim {name!r} in namespace {session.namespace}",
            "leave use_existing out, and it is made",
        )
    return next(one for one in claims if one["metadata"]["name"] == known.name)


def _changed(
    session: Session, user: User, wanted: VolumeFile, live: Json, dry_run: str
) -> AppliedVolume:
    assert wanted.storage
    metadata = live["metadata"]
    known_id = metadata["labels"][names.VOLUME_ID]
    decided = claim(user, metadata["namespace"], wanted.name, known_id, wanted.storage)
    manifest = manifests.claim(replace(decided, name=metadata["name"])).object
    found = differences(manifest, live)
    fixed = [one for one in found if not one.path.startswith(_CHANGEABLE) or _shrinks(one)]
    if fixed:
        raise UserError(
            f"you have a volume {wanted.name!r} already, {known_id}, in which this cannot change:"
            f" {'; '.join(map(str, fixed))}",
            "choose another name or delete that one",
        )
    if not found:
        return AppliedVolume(volumes.volume(live), _SAME)
    if dry_run != "client":
        live = objects.apply(session, manifest, dry_run=dry_run == "server")
    return AppliedVolume(volumes.volume(live), "configured")


def _shrinks(found: Difference) -> bool:
    """Say whether a volume would become smaller, which none can."""
    sizes = found.path.endswith(".storage") and found.live and found.wanted
    return bool(sizes and quantity.quantity(found.wanted) < quantity.quantity(found.live))


def listing(session: Session, scope: Scope) -> list[VolumeStatus]:
    """Return the volumes of a scope, newest first."""
    labels = ",".join(f"{k}={v}" for k, v in ({names.VOLUME: "true"} | scope.labels).items())
    claims = objects.list_all(session, kinds.PVC, scope.namespace, label_selector=labels)
    return volumes.volumes(scope.own(claims))


def find(session: Session, scope: Scope, text: str) -> VolumeStatus:
    """Return the volume that is meant by an id, its beginning, or a name."""
    text = text.removeprefix("volume/")
    known = listing(session, scope)
    matching = (
        [volume for volume in known if volume.id == text]
        or [volume for volume in known if volume.name == text]
        or [volume for volume in known if volume.id.startswith(text)]
    )
    if len(matching) == 1:
        return matching[0]
    if matching:
        ids = ", ".join(volume.id for volume in matching)
        raise UserError(f"{text!r} may be any of these volumes: {ids}", "give a whole id")
    whose = f" of {scope.user.name}" if scope.user else ""
    raise UserError(
        f"there is no volume {text!r}{whose}", "`kubectl sky volumes list` shows those there are"
    )


def in_use(session: Session, volume: VolumeStatus) -> list[str]:
    """Return what mounts a volume now."""
    return volumes.users_of(volume.claim, objects.list_all(session, kinds.POD, volume.namespace))


def delete(session: Session, volume: VolumeStatus) -> None:
    """Delete a volume, and no other claim that has its name by now."""
    metadata = {"name": volume.claim, "namespace": volume.namespace, "uid": volume.uid}
    objects.delete_same(session, kinds.PVC, metadata)


def claims(session: Session, user: User) -> dict[str, KnownClaim]:
    """Return the namespace's claims by every name that they go by for a user."""
    return volumes.known(objects.list_all(session, kinds.PVC, session.namespace), user)
