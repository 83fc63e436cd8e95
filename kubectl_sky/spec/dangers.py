"""Report the fields of a task that reach beyond it.

Fields of pods are looked up by name at any depth, so a field cannot hide at an unexpected position.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import MAX_LISTED, Problem
from kubectl_sky.spec import files, variables
from kubectl_sky.spec.danger_fields import (
    CREDENTIALS,
    EXISTING_SECRETS,
    OUTSIDE,
    TASK_FIELDS,
    VARIABLE_FILES,
    DangerClass,
    Row,
    judge_metadata,
    judge_pod_field,
)
from kubectl_sky.spec.document import Data, Document, Path, join_path, printable
from kubectl_sky.spec.files import local_files
from kubectl_sky.spec.kubernetes import KUBERNETES
from kubectl_sky.spec.substitute import Filled, references
from kubectl_sky.words.documents import Note
from kubectl_sky.words.settings import Settings

_FREE_FORM = frozenset(  # maps whose keys are the user's own words
    {"limits", "matchLabels", "nodeSelector", "overhead", "requests", "userAnnotations"}
)
_PATTERNS = [(field, tuple(name.split("."))) for field in TASK_FIELDS for name in field.names]
_MAX_LISTED = 5


class RiskyField(Struct, frozen=True, rename={"danger_class": "class"}):
    """A field that reaches beyond the task."""

    danger_class: Annotated[
        str, Note("`privileged`, `host`, …: see [security](reviewing.md#classes-and-fields)")
    ]
    path: str
    file: str
    document: int
    line: int
    column: int
    message: str
    refused: Annotated[bool, Note("the settings refuse it")]


class Danger(Struct, frozen=True, order=True):
    """A field that reaches beyond the task; `problem` has position and message."""

    problem: Problem
    danger_class: DangerClass
    host_path: str | None = None  # the directory of the cluster node that it mounts
    refused: bool = False

    def __str__(self) -> str:
        """Format as `task.yaml:12:9: warning: config.…hostNetwork: shares … [host]`."""
        problem = self.problem
        number = f"document {problem.document}: " if problem.document else ""
        where = f"{problem.location}: {number}warning: {problem.path}"
        return f"{where}: {problem.message} [{self.danger_class}]"

    @property
    def report(self) -> RiskyField:
        problem = self.problem
        return RiskyField(
            danger_class=self.danger_class,
            path=problem.path,
            file=problem.file,
            document=problem.document,
            line=problem.line,
            column=problem.column,
            message=problem.message,
            refused=self.refused,
        )


def in_fields(document: Document) -> Iterator[Danger]:
    if document.is_header or document.is_volume:
        return
    for root in (KUBERNETES, ("resources",)):
        for path, danger_class, message, value in _walk(document.get(*root), root):
            problem = document.problem(path, message, severity="warning", key=True)
            host_path = None
            if path[-1] == "hostPath":
                host_path = str(value.get("path") if isinstance(value, dict) else value)
            yield Danger(problem, danger_class, host_path)
    yield from _in_task_fields(document)
    for path, name in variables.secret_references(document):
        yield _danger(document, EXISTING_SECRETS, path, printable(name, 100))


def _in_task_fields(document: Document) -> Iterator[Danger]:
    filled = Filled(document)
    for field, pattern in _PATTERNS:
        for path, value in _matching(filled.document.data, pattern):
            shown = field.detect(value)
            if shown is None:
                continue
            host_path = str(value) if pattern[-1] == "host_path" else None
            if filled.hides(join_path(path)) and references(str(value)):
                host_path = None  # a flag sets the variables; render judges the value then
            yield _danger(document, field, path, shown, host_path)


def _danger(
    document: Document, field: Row, path: Path, shown: str, host_path: str | None = None
) -> Danger:
    key = not isinstance(path[-1], int)
    problem = document.problem(path, field.text(shown), severity="warning", key=key)
    return Danger(problem, field.danger_class, host_path)


def _walk(
    value: Data, path: Path, known: bool = False
) -> Iterator[tuple[Path, DangerClass, str, Data]]:
    """Yield the fields below a value that reach beyond the task: path, class, message and value.

    They are found by name at any depth. `known` is whether all fields around it are those of a pod
    that are harmless: then one that is not known to be is reported.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index), known)
    elif isinstance(value, dict):
        parent = next((step for step in reversed(path) if isinstance(step, str)), "")
        for key, item in value.items():
            name = str(key)
            below = (*path, key)

            if parent in ("annotations", "labels"):
                danger = judge_metadata(name, item)
            elif parent in _FREE_FORM and not isinstance(item, dict | list):
                danger = None
            else:
                danger = judge_pod_field(name, item, known)

            if danger:
                yield below, *danger, item
            inside = name == "pod_config" or (known and not danger)
            yield from _walk(item, below, inside)


def _matching(
    value: Data, pattern: tuple[str, ...], path: Path = ()
) -> Iterator[tuple[Path, Data]]:
    """Yield the paths and values that match a pattern; `*` is any name or index."""
    if not pattern:
        yield path, value
        return
    step, *below = pattern
    items: Iterable[tuple[str | int, Data]] = ()
    if isinstance(value, dict):
        items = value.items() if step == "*" else [(step, value.get(step))]
    elif isinstance(value, list) and step == "*":
        items = enumerate(value)
    for key, item in items:
        yield from _matching(item, tuple(below), (*path, key))


def list_first(dangers: Sequence[Danger]) -> Iterator[Danger | str]:
    """Yield what a person reads: above MAX_LISTED only the first, and that there are more."""
    yield from dangers[:MAX_LISTED]
    if len(dangers) > MAX_LISTED:
        yield f"and more: only the first {MAX_LISTED} risky fields are listed"


def in_local_files(
    document: Document, folders: Collection[str], resolve: Callable[[str], str]
) -> Iterator[Danger]:
    """Yield the local paths outside the task's folders, and well-known credentials.

    `resolve` returns the target of a path after following all links.
    """
    if document.is_header or document.is_volume or not isinstance(document.data, dict):
        return
    filled = Filled(document)
    for local in local_files(filled.document.data):
        target = resolve(local.source)
        field = _judge_path(local.source, target, folders)
        if field:
            yield _danger(document, field, local.field, printable(target, 200))


def in_tree(document: Document, path: Path, names: Collection[str]) -> Danger:
    shown = ", ".join(printable(name, 100) for name in list(names)[:_MAX_LISTED])
    remaining = len(names) - _MAX_LISTED
    if remaining > 0:
        shown = f"{shown} and {remaining} more"
    return _danger(document, CREDENTIALS, path, shown)


def in_variable_file(
    flag: str, source: str, target: str, folders: Collection[str]
) -> Danger | None:
    field = _judge_path(source, target, folders)
    if not field:
        return None
    message = VARIABLE_FILES.text(printable(target, 200))
    problem = Problem(flag, 0, 0, printable(source, 200), message, severity="warning")
    return Danger(problem, VARIABLE_FILES.danger_class)


def _judge_path(source: str, target: str, folders: Collection[str]) -> Row | None:
    if files.has_credentials(source) or files.has_credentials(target):
        return CREDENTIALS
    is_inside = any(PurePosixPath(target).is_relative_to(folder) for folder in folders)
    return None if is_inside else OUTSIDE


def judge(dangers: Iterable[Danger], settings: Settings, file: str) -> Iterator[Danger]:
    """Yield the dangers; those that the settings in `file` forbid are refused."""
    for danger in dangers:
        path = danger.host_path
        if path is not None and not is_allowed_host_path(path, settings.host_paths):
            message = (
                f"the settings do not let tasks mount {printable(path, 200)}, a directory of the"
                " cluster nodes"
            )
            hint = f"mount a volume, or write host_paths: [{printable(path, 200)}] into {file}"
            problem = replace(danger.problem, message=message, hint=hint, severity="error")
            yield replace(danger, problem=problem, refused=True)
        elif danger.danger_class in settings.refuse:
            hint = f"refused by settings {file}: refuse has {danger.danger_class}"
            problem = replace(danger.problem, hint=hint, severity="error")
            yield replace(danger, problem=problem, refused=True)
        else:
            yield danger


def is_allowed_host_path(path: str, folders: Iterable[str]) -> bool:
    """Report whether a directory of the cluster node is in one of the folders."""
    parts = PurePosixPath(path)
    return ".." not in parts.parts and any(parts.is_relative_to(folder) for folder in folders)
