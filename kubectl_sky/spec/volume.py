"""Volumes: what a task mounts, and what `volumes apply` creates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Document

ACCESS_MODE = "ReadWriteOnce"  # the default, as in SkyPilot
HOME = "~/"  # prefix of a path in the home directory, which only the running container knows


@dataclass(frozen=True)
class Storage:
    """What a PVC requests; a `storage_class` of None is the cluster's default."""

    size: str
    storage_class: str | None = None
    access_modes: tuple[str, ...] = (ACCESS_MODE,)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VolumeMount:
    """A mount at an absolute path, or at one in the home directory (`~/data`).

    It is one of three: a volume called `name`, or a PVC called `name` if there is no such volume; a
    volume that is deleted with the task (`storage`); a directory of the cluster node (`host_path`).
    """

    path: str
    name: str = ""
    sub_path: str | None = None
    read_only: bool = False
    storage: Storage | None = None
    host_path: str | None = None


@dataclass(frozen=True)
class VolumeFile:
    """A volume for `volumes apply`; `storage` is None for an existing PVC."""

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
    """Return the volume of a document without errors from `validate`."""
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
