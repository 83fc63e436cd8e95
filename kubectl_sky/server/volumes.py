"""Volumes: create, list, show and delete them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kubectl_sky.actions import volumes as actions
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.plan import pvc
from kubectl_sky.server.identity import AnyCaller, AnyScope
from kubectl_sky.submitting import preflight
from kubectl_sky.words import models, names
from kubectl_sky.words.names import API_VERSION

router = APIRouter(prefix="/volumes", tags=["volumes"])

VolumeId = Annotated[
    str, Path(pattern=f"^{names.ID.pattern}$", description="Volume id: 8 characters.")
]


def _as_list(modes: object) -> object:
    """Split a text at its commas, as the command line does."""
    return modes.replace(" ", "").split(",") if isinstance(modes, str) else modes


class NewVolume(BaseModel):
    """A volume to create."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "data-vol", "size": "10Gi"}]}
    )

    name: str = Field(min_length=1, max_length=253)
    size: str = Field(min_length=1, max_length=40, description="10Gi, 1Ti; a number is GiB")
    storage_class: str | None = Field(None, max_length=253)
    access_modes: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        ["ReadWriteOnce"], max_length=8, description="A list, or a text with commas"
    )


@router.post("/create")
def create(caller: AnyCaller, volume: NewVolume) -> models.VolumeCreated:
    """Create a volume that tasks mount by its name."""
    storage = pvc.storage(volume.size, volume.storage_class, volume.access_modes)
    notes = preflight.storage_class_notes(caller.session, [storage.storage_class])
    created = actions.create(caller.session, caller.user, volume.name, names.new_id(), storage)
    message = f"Volume created successfully with ID: {created.id}"
    return {
        "apiVersion": API_VERSION,
        "kind": "VolumeCreated",
        "volume_id": created.id,
        "status": "created",
        "message": message,
        "notes": list(notes),
    }


@router.get("")
def list_volumes(caller: AnyCaller, scope: AnyScope) -> models.VolumeList:
    """List your volumes, newest first."""
    volumes = [_as_json(volume) for volume in actions.list_volumes(caller.session, scope)]
    return {"apiVersion": API_VERSION, "kind": "VolumeList", "volumes": volumes}


@router.get("/{volume_id}")
def show(caller: AnyCaller, scope: AnyScope, volume_id: VolumeId) -> models.Volume:
    """Show a volume and what uses it."""
    volume = actions.find(caller.session, scope, volume_id)
    return _as_json(volume) | {"used_by": actions.in_use(caller.session, volume)}


def _as_json(volume: VolumeStatus) -> models.Volume:
    """Return the volume with the fields that REST always has."""
    return volume.as_json() | {"reason": volume.reason}


@router.delete("/{volume_id}")
def delete(
    caller: AnyCaller,
    scope: AnyScope,
    volume_id: VolumeId,
    force: Annotated[bool, Query(description="Delete it even while it is in use.")] = False,
) -> models.VolumeDeleted:
    """Delete a volume and its data."""
    volume = actions.find(caller.session, scope, volume_id)
    if not force:
        actions.check_unused(caller.session, volume, "add force=true")
    done = actions.delete(caller.session, volume)
    if done == "deleted":
        message = f"Volume {volume.id} deleted successfully"
        return {"volume_id": volume.id, "status": "deleted", "message": message}
    message = f"Volume {volume.id} {done}"
    return {"volume_id": volume.id, "status": "deleting", "message": message}
