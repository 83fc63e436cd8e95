"""`volumes`: claims with a name and an owner."""

from kubectl_sky import kinds, names
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe import volumes
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.plan.claim import Storage, claim
from kubectl_sky.render import manifests
from kubectl_sky.users import User


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


def delete(session: Session, volume: VolumeStatus) -> bool:
    """Delete a volume; False if it had gone already."""
    return objects.delete(session, kinds.PVC, volume.claim, volume.namespace)


def claims(session: Session, user: User) -> dict[str, str]:
    """Return the user's volume names with the claims that they stand for; the newest of a name."""
    found = listing(session, Scope(session.namespace, user))
    return {volume.name: volume.claim for volume in reversed(found)}
