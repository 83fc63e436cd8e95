"""Rules of volumes and the paths where they are mounted."""

import re
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, entries, printable

OURS = "/etc/kubectl-sky"  # where the task's scripts are
_SYSTEM = ("/", "/proc", "/sys", "/dev", "/bin", "/usr", "/lib", "/etc", "/sbin")
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # also what volumes create gives
_MAX_NAME = 253


def _paths(document: Document) -> Iterator[Problem]:
    for path, _ in entries(document.get("volumes")):
        wrong = _wrong_path(path)
        if wrong:
            yield document.problem(("volumes", path), wrong, key=True)
        elif path in _SYSTEM:
            message = f"hides the image's own {path}, without which containers rarely start"
            yield document.problem(("volumes", path), message, severity="warning", key=True)


def _wrong_path(path: str) -> str:
    """Return what is wrong with a path in the container; `~` is for refusals to tell."""
    within = path.removeprefix("~").split("/")
    cases = (
        (not path.startswith(("/", "~")), "expected an absolute path such as /data"),
        (any(not char.isprintable() for char in path), "a path has no control characters"),
        (":" in path, "a mount path cannot hold a colon"),
        (".." in within or "." in within, "a mount path cannot hold . or .."),
        (path != "/" and path.endswith("/"), "a mount path does not end with /"),
        ("//" in path, "a mount path has no empty parts"),
        (path == OURS or path.startswith(OURS + "/"), f"{OURS} is where the task's scripts are"),
        (len(path) > 4096, "is longer than a path can be"),
    )
    return next((message for wrong, message in cases if wrong), "")


def _volumes(document: Document) -> Iterator[Problem]:
    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict):
            kinds = [
                field for field in ("name", "size", "host_path") if value.get(field) is not None
            ]
            if not kinds:
                hint = "such as {name: my-volume, sub_path: runs/1}"
                yield document.problem(("volumes", path), "the field 'name' is missing", hint)
            yield from _detail(document, path, value)
        elif isinstance(value, str):
            yield from _volume_name(document, ("volumes", path), value)


def _detail(document: Document, path: str, value: dict[Data, Data]) -> Iterator[Problem]:
    name, within = value.get("name"), value.get("sub_path")
    if isinstance(name, str):
        yield from _volume_name(document, ("volumes", path, "name"), name)
    if isinstance(within, str) and ".." in within.split("/"):
        where = ("volumes", path, "sub_path")
        yield document.problem(where, "a path within a volume cannot hold ..")


def _volume_name(document: Document, where: tuple[str, ...], name: str) -> Iterator[Problem]:
    """A name finds a volume by its label; what Kubernetes cannot call anything finds nothing."""
    if (
        not name.strip()
        or len(name) > _MAX_NAME
        or not _CLAIM.fullmatch(name.lower().replace("_", "-"))
    ):
        message = f"{printable(name)!r} can be no volume's name: letters, digits, - and . only"
        yield document.problem(where, message)


RULES = (_paths, _volumes)
