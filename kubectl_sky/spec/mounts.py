"""Rules of volumes and the paths where they are mounted."""

import re
from collections.abc import Iterator

from kubectl_sky import names
from kubectl_sky.errors import Problem
from kubectl_sky.spec import metadata, quantity
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.volume import HOME

OURS = (names.SCRIPTS_FOLDER, names.ROOM_FOLDER)
_SYSTEM = ("/", "/proc", "/sys", "/dev", "/bin", "/usr", "/lib", "/etc", "/sbin")
_FORMS = ("name", "size", "host_path")
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # also what volumes create gives
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX_NAME = 253


def is_ours(path: str) -> bool:
    """Say whether a path of the pod is where the task's own files are."""
    return any(f"{path}/".startswith(f"{folder}/") for folder in OURS)


def _paths(document: Document) -> Iterator[Problem]:
    for path, _ in entries(document.get("volumes")):
        wrong = wrong_path(path)
        if wrong:
            yield document.problem(("volumes", path), wrong, key=True)
        elif path in _SYSTEM:
            message = f"hides the image's own {path}, without which containers rarely start"
            yield document.problem(("volumes", path), message, severity="warning", key=True)


def wrong_path(path: str) -> str:
    """Return what is wrong with a path in the container; `~/` begins one in the home directory."""
    within = path.removeprefix(HOME).split("/")
    cases = (
        (not path.startswith(("/", HOME)), "expected an absolute path such as /data"),
        (not path.isprintable(), "a path has no control characters"),
        (":" in path, "a mount path cannot hold a colon"),
        (".." in within or "." in within, "a mount path cannot hold . or .."),
        (path != "/" and path.endswith("/"), "a mount path does not end with /"),
        ("//" in path, "a mount path has no empty parts"),
        (is_ours(path), "the task's scripts and files are in this folder"),
        (len(path) > 4096, "is longer than a path can be"),
    )
    return next((message for wrong, message in cases if wrong), "")


def _volumes(document: Document) -> Iterator[Problem]:
    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict):
            yield from _detail(document, ("volumes", path), value)
        elif isinstance(value, str):
            yield from _volume_name(document, ("volumes", path), value)


def _detail(document: Document, path: Path, value: dict[Data, Data]) -> Iterator[Problem]:
    """A mount in detail is a volume by name, one with a size, or a directory of the node."""
    forms = [field for field in _FORMS if value.get(field) is not None]
    if not forms:
        hint = "such as {name: my-volume, sub_path: runs/1}"
        yield document.problem(path, "the field 'name' is missing", hint)
    for other in forms[1:]:
        message = f"{forms[0]} and {other} exclude each other"
        yield document.problem((*path, other), message, "keep one of them", key=True)
    name, within, host = value.get("name"), value.get("sub_path"), value.get("host_path")
    if isinstance(name, str):
        yield from _volume_name(document, (*path, "name"), name)
    if isinstance(within, str) and ".." in within.split("/"):
        yield document.problem((*path, "sub_path"), "a path within a volume cannot hold ..")
    if isinstance(host, str) and (not host.startswith("/") or wrong_path(host)):
        message = wrong_path(host) or "expected an absolute path such as /mnt/data"
        yield document.problem((*path, "host_path"), message)
    yield from _size(document, (*path, "size"), value.get("size"))
    yield from metadata.labels(document, (*path, "labels"))


def _size(document: Document, path: Path, size: Data) -> Iterator[Problem]:
    if isinstance(size, bool) or not isinstance(size, str | int):
        return
    try:
        quantity.storage(size)
    except ValueError as error:
        yield document.problem(path, f"{error}, got {printable(str(size))!r}")


def _volume_name(document: Document, where: Path, name: str) -> Iterator[Problem]:
    """A name finds a volume by its label; what Kubernetes cannot call anything finds nothing."""
    if (
        not name.strip()
        or len(name) > _MAX_NAME
        or not _CLAIM.fullmatch(name.lower().replace("_", "-"))
    ):
        message = f"{printable(name)!r} can be no volume's name: letters, digits, - and . only"
        yield document.problem(where, message)


def volume_problems(document: Document) -> list[Problem]:
    """Return what rules find in a volume that is to be made."""
    name, size, existing = map(document.get, ("name", "size", "use_existing"))
    found: list[Problem] = []
    if isinstance(name, str):
        found += _volume_name(document, ("name",), name)
    if size is None and not existing and document.get("type") == "k8s-pvc":
        found.append(document.problem((), "the field 'size' is missing", "such as size: 10Gi"))
    found += _size(document, ("size",), size)
    found += metadata.labels(document, ("labels",))
    namespace = document.get("config", "namespace")
    if isinstance(namespace, str) and not _NAMESPACE.fullmatch(namespace):
        message = f"{printable(namespace)!r} can be no namespace: small letters, digits and - only"
        found.append(document.problem(("config", "namespace"), message))
    return found


RULES = (_paths, _volumes)
