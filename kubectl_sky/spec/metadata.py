"""Rules of labels and annotations: Kubernetes' syntax, and the reserved ones."""

import re
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.words import names

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def labels(document: Document, path: Path) -> Iterator[Problem]:
    """Yield the errors of the labels at a path, and warnings for reserved ones."""
    for key, value in entries(document.get(*path)):
        yield from _key(document, (*path, key), "label")
        if isinstance(value, str | int) and not _VALUE.fullmatch(str(value)):
            shown = printable(str(value))
            message = f'"{shown}" is not a valid label value: letters, digits, - _ .'
            yield document.problem(
                (*path, key), message, "at most 63 characters, ends with a letter or digit"
            )


def annotations(document: Document, path: Path) -> Iterator[Problem]:
    """Yield the errors of the annotations at a path, and warnings for reserved ones."""
    for key, _ in entries(document.get(*path)):
        yield from _key(document, (*path, key), "annotation")


def without_ours(values: Data) -> dict[str, Data]:
    """Return labels or annotations without the reserved ones."""
    return {key: value for key, value in entries(values) if not names.is_ours(key)}


def _key(document: Document, path: Path, kind: str) -> Iterator[Problem]:
    key = str(path[-1])
    prefix, slash, name = key.rpartition("/")
    is_valid_prefix = not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix))
    if not is_valid_prefix or not _NAME.fullmatch(name):
        message = f"is not a valid {kind}: letters, digits, - _ . and at most 63 characters"
        yield document.problem(path, message, "such as team or example.com/team", key=True)
    elif names.is_ours(key):
        message = f"ignored: this {kind} identifies the task"
        yield document.problem(path, message, "choose another name", "warning", key=True)
