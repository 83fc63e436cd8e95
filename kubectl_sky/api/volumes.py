"""Volumes of a client: PVCs with a name and an owner."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubectl_sky.actions import identity, volumes
from kubectl_sky.api.notes import LOG
from kubectl_sky.api.table import Table
from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.plan import pvc
from kubectl_sky.submitting import preflight
from kubectl_sky.tasks.deletion import still_deleting
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import names


@dataclass(frozen=True)
class Volumes:
    """The volumes of a client."""

    _session: Session = field(repr=False)
    _scope: Scope = field(repr=False)
    _user: str | None = None

    def create(
        self,
        name: str,
        size: str,
        *,
        storage_class: str | None = None,
        access_modes: Sequence[str] = ("ReadWriteOnce",),
    ) -> VolumeStatus:
        """Create a volume that tasks mount by its name.

        `size` is a quantity such as "10Gi"; a plain number is GiB. Without `storage_class`, the
        cluster's default is used. Raises NameTaken if you have a volume with this name.
        """
        modes = [access_modes] if isinstance(access_modes, str) else access_modes
        storage = pvc.storage(str(size), storage_class, modes)
        for note in preflight.storage_class_notes(self._session, [storage.storage_class]):
            LOG.info("%s", note)
        user = self._scope.user or identity.user(self._session, self._user)
        return volumes.create(self._session, user, name, names.new_id(), storage)

    def list(self) -> Table[VolumeStatus]:
        """Return your volumes, newest first."""
        return Table(volumes.list_volumes(self._session, self._scope))

    def delete(self, volume: str, *, force: bool = False, wait: bool = True) -> VolumeStatus:
        """Delete a volume and its data; `volume` is an id, a prefix of an id, or a name.

        Returns the volume as it was, when its PVC is gone. Raises InUse if a task uses it, and
        ClusterError if the PVC exists after 30 seconds. With `force`, it is deleted when the last
        of these tasks has finished. Without `wait`, the deletion only begins.
        """
        match = volumes.find(self._session, self._scope, volume)
        if not force:
            volumes.check_unused(self._session, match, "use force=True")
        volumes.delete(self._session, match)
        if wait and (remaining := volumes.wait_until_gone(self._session, match)):
            raise still_deleting(remaining)
        return match
