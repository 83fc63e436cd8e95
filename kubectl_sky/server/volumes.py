"""Volumes: create, list, show and delete them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from kubectl_sky import names
from kubectl_sky.actions import preflight, taskfile
from kubectl_sky.actions import volumes as actions
from kubectl_sky.plan import pvc
from kubectl_sky.server import models
from kubectl_sky.server.identity import AnyCaller, AnyScope

router = APIRouter(prefix="/volumes", tags=["volumes"])

VolumeId = Annotated[
    str, Path(pattern=f"^{names.ID.pattern}$", description="Volume id: 8 characters.")
]


@router.post("/create", response_model=models.VolumeCreated)
def create(caller: AnyCaller, volume: models.NewVolume) -> dict[str, object]:
    """Create a volume that tasks mount by its name."""
    storage = pvc.storage(volume.size, volume.storage_class, volume.access_modes)
    notes = preflight.storage_class_notes(caller.session, [storage.storage_class])
    created = actions.create(caller.session, caller.user, volume.name, taskfile.new_id(), storage)
    message = f"Volume created successfully with ID: {created.id}"
    return {"volume_id": created.id, "message": message, "notes": list(notes)}


@router.get("", response_model=models.VolumeList)
def list_volumes(caller: AnyCaller, scope: AnyScope) -> dict[str, object]:
    """List your volumes, newest first."""
    return {"volumes": [item.as_json() for item in actions.list_volumes(caller.session, scope)]}


@router.get("/{volume_id}", response_model=models.VolumeStatus)
def show(caller: AnyCaller, scope: AnyScope, volume_id: VolumeId) -> dict[str, object]:
    """Show a volume and what uses it."""
    volume = actions.find(caller.session, scope, volume_id)
    return volume.as_json() | {"used_by": actions.in_use(caller.session, volume)}


@router.delete("/{volume_id}", response_model=models.VolumeDeleted)
def delete(
    caller: AnyCaller,
    scope: AnyScope,
    volume_id: VolumeId,
    force: Annotated[bool, Query(description="Delete it even while it is in use.")] = False,
) -> dict[str, object]:
    """Delete a volume and its data."""
    volume = actions.find(caller.session, scope, volume_id)
    if not force:
        actions.check_unused(caller.session, volume, "add force=true")
    actions.delete(caller.session, volume)
    return {"volume_id": volume.id, "message": f"Volume {volume.id} deleted successfully"}
