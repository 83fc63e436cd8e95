"""Volumes: what a task mounts, and what `volumes apply` makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Document

ACCESS_MODE = "ReadWriteOnce"  # where a file names none, as SkyPilot has it
HOME = "~/"  # begins a path in the home directory, which only the running container knows


@dataclass(frozen=True)
class Storage:
    """What a claim asks for; an unwritten class is the cluster's default."""

    size: str
    storage_class: str | None = None
    access_modes: tuple[str, ...] = (ACCESS_MODE,)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VolumeMount:
    """Something at a path: an absolute one, or one in the home directory (`~/data`).

    It is one of three: a volume by its `name`, else a claim by its own; a volume that lives as
    long as the task (`storage`); a directory of the cluster's node (`host_path`).
    """

    path: str
    name: str = ""
    sub_path: str | None = None
    read_only: bool = False
    storage: Storage | None = None
    host_path: str | None = None


@dataclass(frozen=True)
class VolumeFile:
    """A volume as `volumes apply` takes it; storage is None for a claim that is there already."""

    name: str
    storage: Storage | None
    namespace: str | None = None
    context: str | None = None


def mount_of(path: str, value: str | Mapping[str, Any]) -> VolumeMount:
    """Return the mount of an entry of `volumes`."""
    if isinstance(value, str):
        return VolumeMount(path, value)
    name = value.get("name") or ""
    return VolumeMount(
        path,
        name,
        sub_path=value.get("sub_path"),
        read_only=value.get("mode") == "ro",
        storage=None if name or value.get("size") is None else _storage(value),
        host_path=value.get("host_path"),
    )


def volume_of(document: Document) -> VolumeFile:
    """Return the volume of a document in which `validate` finds no error."""
    data = document.data
    config = data.get("config") or {}
    _, _, context = (data.get("infra") or "").partition("/")
    return VolumeFile(
        name=data["name"],
        storage=None if data.get("use_existing") else _storage(data),
        namespace=config.get("namespace"),
        context=context or None,
    )


def _storage(data: Mapping[str, Any]) -> Storage:
    config = data.get("config") or {}
    return Storage(
        size=quantity.storage(data["size"]),
        storage_class=config.get("storage_class_name"),
        access_modes=(config.get("access_mode") or ACCESS_MODE,),
        labels=dict(data.get("labels") or {}),
    )
