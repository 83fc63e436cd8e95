"""Volumes: create, list, show and delete them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kubectl_sky.actions import volumes as actions
from kubectl_sky.observe.volumes import Volume, VolumeCreated, VolumeList
from kubectl_sky.plan import pvc
from kubectl_sky.submitting import preflight
from kubectl_sky.tasks import deletion
from kubectl_sky.words import names
from kubectl_sky.words.documents import Note
from kubectl_sky_server.rest.documents import DocumentRoute, deleting, encode
from kubectl_sky_server.rest.identity import AnyCaller, AnyScope

router = APIRouter(prefix="/volumes", tags=["volumes"], route_class=DocumentRoute)

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


class VolumeDeleted(Struct):
    """A deleted volume."""

    volume_id: str
    status: Annotated[str, Note("`deleted`, or `deleting` while the PVC exists")]
    message: str


@router.post("/create")
def create(caller: AnyCaller, volume: NewVolume) -> VolumeCreated:
    """Create a volume that tasks mount by its name."""
    storage = pvc.storage(volume.size, volume.storage_class, volume.access_modes)
    notes = preflight.storage_class_notes(caller.session, [storage.storage_class])
    created = actions.create(caller.session, caller.user, volume.name, names.new_id(), storage)
    message = f"Volume created successfully with ID: {created.id}"
    return VolumeCreated(volume_id=created.id, message=message, notes=list(notes))


@router.get("")
def list_volumes(caller: AnyCaller, scope: AnyScope) -> VolumeList:
    """List your volumes, newest first."""
    volumes = actions.list_volumes(caller.session, scope)
    # REST has the reason also if it is empty.
    return VolumeList(volumes=[replace(item.document, reason=item.reason) for item in volumes])


@router.get("/{volume_id}")
def show(caller: AnyCaller, scope: AnyScope, volume_id: VolumeId) -> Volume:
    """Show a volume and what uses it."""
    volume = actions.find(caller.session, scope, volume_id)
    users = actions.in_use(caller.session, volume)
    return replace(volume.document, reason=volume.reason, used_by=users)


@router.delete("/{volume_id}", responses=deleting(VolumeDeleted))
def delete(
    caller: AnyCaller,
    scope: AnyScope,
    volume_id: VolumeId,
    force: Annotated[bool, Query(description="Delete it even while it is in use.")] = False,
) -> VolumeDeleted | Response:
    """Delete a volume and its data."""
    volume = actions.find(caller.session, scope, volume_id)
    if not force:
        actions.check_unused(caller.session, volume, "add force=true")
    actions.delete(caller.session, volume)
    if remaining := actions.wait_until_gone(caller.session, volume, deletion.REQUEST_SECONDS):
        message = f"Volume {volume.id} is being deleted: {remaining[0].holds[0].why}"
        return encode(VolumeDeleted(volume.id, "deleting", message), 202)
    return VolumeDeleted(volume.id, "deleted", f"Volume {volume.id} deleted successfully")
