"""Rules for `config.kubernetes.pod_config`: the fields that a user cannot change.

schemas/pod.json has the fields of a pod and their types.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.errors import Problem
from kubectl_sky.spec import metadata
from kubectl_sky.spec.document import Data, Document, Path
from kubectl_sky.spec.variables import RESERVED

POD_CONFIG: Path = ("config", "kubernetes", "pod_config")
MAIN = (names.CONTAINER, "ray-node", None)  # names of the task's container in SkyPilot files

_RETRY = "the cluster would restart failed containers"
_FIXED = {
    "restartPolicy": (_RETRY, "job_recovery is for that"),
    "ephemeralContainers": ("no pod can be created with them", "use kubectl debug"),
}
_FIXED_OF_MAIN = {
    "command": ("this would replace setup and run", "move it to run"),
    "args": ("this would change how setup and run are started", "move it to run"),
    "restartPolicy": (_RETRY, "job_recovery is for that"),
    "restartPolicyRules": (_RETRY, "job_recovery is for that"),
}
_FOUND_BY = ("hostname", "subdomain")  # the nodes of a task find each other by these
_FOLDERS = (f"{names.SCRIPTS_FOLDER}/", f"{names.ROOM_FOLDER}/")


@dataclass(frozen=True)
class _Item:
    """A list item and its path."""

    path: Path
    fields: dict[Data, Data]


def problems(document: Document) -> Iterator[Problem]:
    """Yield an error for each field that must not change, a warning for ignored ones."""
    if not isinstance(document.get(*POD_CONFIG), dict):
        return
    yield from _metadata(document)
    yield from _spec(document)
    for item in _items(document, (*POD_CONFIG, "spec", "volumes")):
        if item.fields.get("name") in (names.SCRIPTS, names.ROOM):
            message = "this name is reserved for a volume of the task"
            yield document.problem((*item.path, "name"), message, "choose another name")
    for item in _items(document, (*POD_CONFIG, "spec", "containers")):
        if item.fields.get("name") in MAIN:
            yield from _main(document, item)
        else:
            message = "the task completes only when this container does"
            hint = "as an init container with restartPolicy: Always, it stops with the task"
            yield document.problem(item.path, message, hint, "warning")


def _metadata(document: Document) -> Iterator[Problem]:
    path = (*POD_CONFIG, "metadata")
    yield from metadata.labels(document, (*path, "labels"))
    yield from metadata.annotations(document, (*path, "annotations"))
    fields = document.get(*path)
    for key, value in fields.items() if isinstance(fields, dict) else ():
        if value is not None and key not in ("labels", "annotations"):
            message = "ignored: the Job sets it for its pods"
            yield document.problem((*path, key), message, "leave it out", "warning", key=True)


def _spec(document: Document) -> Iterator[Problem]:
    path = (*POD_CONFIG, "spec")
    for field, (message, hint) in _FIXED.items():
        if document.get(*path, field) not in (None, "Never"):
            yield document.problem((*path, field), message, hint, key=True)
    for field in _FOUND_BY:
        if document.get(*path, field) is not None and document.get("num_nodes") not in (None, 1):
            message = "the nodes of the task use it to find each other"
            yield document.problem((*path, field), message, "leave it out", key=True)


def _main(document: Document, container: _Item) -> Iterator[Problem]:
    for field, (message, hint) in _FIXED_OF_MAIN.items():
        if container.fields.get(field) is not None:
            yield document.problem((*container.path, field), message, hint, key=True)
    for item in _items(document, (*container.path, "volumeMounts")):
        mount_path = str(item.fields.get("mountPath"))
        if f"{mount_path.rstrip('/')}/".startswith(_FOLDERS):
            message = "the task's scripts and files are in this folder"
            yield document.problem((*item.path, "mountPath"), message, "choose another folder")
    for item in _items(document, (*container.path, "env")):
        if item.fields.get("name") in RESERVED:
            message = "ignored: every node sets its own value"
            yield document.problem((*item.path, "name"), message, severity="warning")


def _items(document: Document, path: Path) -> Iterator[_Item]:
    """Yield the items of a list that are maps; the schema reports others."""
    items = document.get(*path)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield _Item((*path, index), item)


RULES = (problems,)
