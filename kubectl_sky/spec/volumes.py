"""Volumes: what a task mounts, what `volumes apply` creates, and the rules of both."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec import quantity, resource_fields
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.schema import describe
from kubectl_sky.words import names

ACCESS_MODE = "ReadWriteOnce"  # the default, as in SkyPilot
LOGS: Path = ("config", "kubectl_sky", "logs")
HOME = "~/"  # prefix of a path in the home directory, which only the running container knows


class Storage(Struct, frozen=True):
    """What a PVC requests; a `storage_class` of None is the cluster's default."""

    size: str
    storage_class: str | None = None
    access_modes: tuple[str, ...] = (ACCESS_MODE,)
    labels: Mapping[str, str] = {}


class VolumeMount(Struct, frozen=True):
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


class VolumeFile(Struct, frozen=True):
    """A volume for `volumes apply`; `storage` is None for an existing PVC."""

    name: str
    storage: Storage | None
    namespace: str | None = None
    context: str | None = None


def mount_of(path: str, value: str | Mapping[str, Any]) -> VolumeMount:
    if isinstance(value, str):
        return VolumeMount(path, value)
    name = value.get("name") or ""
    storage = None if name or value.get("size") is None else _storage(value)
    return VolumeMount(
        path,
        name,
        sub_path=value.get("sub_path"),
        read_only=value.get("mode") == "ro",
        storage=storage,
        host_path=value.get("host_path"),
    )


def volume_of(document: Document) -> VolumeFile:
    data = document.data
    config = data.get("config") or {}
    _, _, context = (data.get("infra") or "").partition("/")
    storage = None if data.get("use_existing") else _storage(data)
    return VolumeFile(
        name=data["name"],
        storage=storage,
        namespace=config.get("namespace"),
        context=context or None,
    )


def _storage(data: Mapping[str, Any]) -> Storage:
    config = data.get("config") or {}
    return Storage(
        size=quantity.storage(data["size"]),
        storage_class=config.get("storage_class_name"),
        access_modes=(config.get("access_mode") or ACCESS_MODE,),
        labels=resource_fields.without_ours(data.get("labels")),
    )


_RESERVED_FOLDERS = (names.SCRIPTS_FOLDER, names.SCRATCH_FOLDER)
_SYSTEM = ("/", "/proc", "/sys", "/dev", "/bin", "/usr", "/lib", "/etc", "/sbin")
_FORMS = ("name", "size", "host_path")
_PVC_NAME = re.compile(
    r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
)  # also matches names that `volumes create` generates
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX_NAME = 253


def is_reserved_path(path: str) -> bool:
    """Report whether a path of the pod is reserved for the task's scripts and files."""
    return any(f"{path}/".startswith(f"{folder}/") for folder in _RESERVED_FOLDERS)


def _paths(document: Document) -> Iterator[Problem]:
    for path, _ in entries(document.get("volumes")):
        path_error = wrong_path(path)
        if path_error:
            yield document.problem(("volumes", path), path_error, key=True)
        elif path in _SYSTEM:
            message = f"hides the image's own {path}, without which containers rarely start"
            yield document.problem(("volumes", path), message, severity="warning", key=True)


def wrong_path(path: str) -> str:
    """Return the error of a mount path; "" if it is valid.

    A path that begins with `~/` is in the home directory.
    """
    parts = path.removeprefix(HOME).split("/")
    cases = (
        (not path.startswith(("/", HOME)), "expected an absolute path such as /data"),
        (not path.isprintable(), "a path has no control characters"),
        (":" in path, "a mount path cannot hold a colon"),
        (".." in parts or "." in parts, "a mount path cannot hold . or .."),
        (path != "/" and path.endswith("/"), "a mount path does not end with /"),
        ("//" in path, "a mount path has no empty parts"),
        (is_reserved_path(path), "the task's scripts and files are in this folder"),
        (len(path) > 4096, "the path is too long"),
    )
    return next((message for is_wrong, message in cases if is_wrong), "")


def _volumes(document: Document) -> Iterator[Problem]:
    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict):
            yield from _detail(document, ("volumes", path), value)
        elif isinstance(value, str):
            yield from _volume_name(document, ("volumes", path), value)


def _detail(document: Document, path: Path, value: dict[Data, Data]) -> Iterator[Problem]:
    """Check a mount in the long form.

    It is a volume by name, one with a size, or a directory of the cluster node.
    """
    forms = [field for field in _FORMS if value.get(field) is not None]
    if not forms:
        hint = "such as {name: my-volume, sub_path: runs/1}"
        yield document.problem(path, 'missing field "name"', hint)
    for extra in forms[1:]:
        message = f"{forms[0]} and {extra} exclude each other"
        yield document.problem((*path, extra), message, "keep one of them", key=True)

    name = value.get("name")
    sub_path = value.get("sub_path")
    host_path = value.get("host_path")
    if isinstance(name, str):
        yield from _volume_name(document, (*path, "name"), name)
    if isinstance(sub_path, str) and ".." in sub_path.split("/"):
        yield document.problem((*path, "sub_path"), "a path within a volume cannot hold ..")
    if isinstance(host_path, str) and (not host_path.startswith("/") or wrong_path(host_path)):
        message = wrong_path(host_path) or "expected an absolute path such as /mnt/data"
        yield document.problem((*path, "host_path"), message)

    yield from _size(document, (*path, "size"), value.get("size"))
    yield from _storage_class(document, path)
    yield from resource_fields.label_problems(document, (*path, "labels"))


def _size(document: Document, path: Path, size: Data) -> Iterator[Problem]:
    if isinstance(size, bool) or not isinstance(size, str | int):
        return
    try:
        quantity.storage(size)
    except ValueError as error:
        yield document.problem(path, f"{error}, got {describe(str(size))}")


def _storage_class(document: Document, path: Path) -> Iterator[Problem]:
    field_path = (*path, "config", "storage_class_name")
    name = document.get(*field_path)
    if isinstance(name, str) and name and not names.SUBDOMAIN.fullmatch(name):
        message = (
            f"{describe(name)} is not a valid StorageClass name:"
            " use lowercase letters, digits, - and ."
        )
        yield document.problem(field_path, message)


def _volume_name(document: Document, where: Path, name: str) -> Iterator[Problem]:
    """Check a volume's name.

    Volumes are found by label, so a name that Kubernetes does not allow cannot match any.
    """
    if (
        not name.strip()
        or len(name) > _MAX_NAME
        or not _PVC_NAME.fullmatch(name.lower().replace("_", "-"))
    ):
        message = f"{describe(name)} is not a valid volume name: use letters, digits, - and ."
        hint = ""
        if name.startswith("/"):
            hint = f"for a folder of the cluster node, write {{host_path: {printable(name)}}}"
        if name.startswith("/") and not str(where[1]).startswith(("/", HOME)):
            hint = f"write {printable(name)}: {printable(str(where[1]))}"
        yield document.problem(where, message, hint)


def volume_problems(document: Document) -> list[Problem]:
    name, size, existing = map(document.get, ("name", "size", "use_existing"))
    problems: list[Problem] = []
    if isinstance(name, str):
        problems += _volume_name(document, ("name",), name)
    if size is None and not existing and document.get("type") == "k8s-pvc":
        problems.append(document.problem((), 'missing field "size"', "such as size: 10Gi"))

    problems += _size(document, ("size",), size)
    problems += _storage_class(document, ())
    problems += resource_fields.label_problems(document, ("labels",))

    namespace = document.get("config", "namespace")
    if isinstance(namespace, str) and not _NAMESPACE.fullmatch(namespace):
        message = (
            f"{describe(namespace)} is not a valid namespace: use lowercase letters, digits and -"
        )
        problems.append(document.problem(("config", "namespace"), message))
    return problems


def containing(path: str, mounts: Iterable[str]) -> str | None:
    """Return the innermost of the mount paths that a path is in; None without any."""
    around = [mount for mount in mounts if f"{path}/".startswith(f"{mount.rstrip('/')}/")]
    return max(around, key=len, default=None)


def _logs(document: Document) -> Iterator[Problem]:
    logs = document.get(*LOGS)
    mounts = dict(entries(document.get("volumes")))
    if not isinstance(logs, str) or not logs:
        return
    mount = containing(logs, mounts)
    if error := wrong_path(logs):
        yield document.problem(LOGS, error)
    elif mount is None:
        hint = f"use a folder on a volume: {', '.join(mounts)}" if mounts else ""
        hint = hint or "add a volume, such as volumes: {/data: NAME}, and use a folder on it"
        yield document.problem(LOGS, f"{describe(logs)} is not on a volume", hint)
    elif document.get("volumes", mount, "mode") == "ro":
        yield document.problem(LOGS, f"volume {describe(mount)} is read-only", "remove mode: ro")


RULES = (_paths, _volumes)
LOG_RULES = (_logs,)
