"""What YAML 1.1 reads otherwise than people do: `0755` is 493, `1:30` is 90, `{A100:1}` has no 1.

Variables have a rule of their own, which says what the task sees.
"""

import re
from collections.abc import Callable, Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document, Node, Path, entries, printable

_OCTAL = re.compile(r"[-+]?0[0-7_]*[1-9][0-7_]*")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_COUNTED = re.compile(r"[^:]+:[0-9.]+")
_APART = ("envs", "secrets")


def _numbers(document: Document) -> Iterator[Problem]:
    for path, node in _scalars(document.root, ()):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            continue
        if document.get(*path) is not node.value:
            continue  # a flag says something else
        if _SEXAGESIMAL.fullmatch(node.text):
            meant = "a number in base 60"
        elif len(node.text.strip("+-")) > 1 and _OCTAL.fullmatch(node.text):
            meant = "an octal number"
        else:
            continue
        message = f"YAML reads {printable(node.text)} as {meant}: {printable(str(node.value))}"
        hint = "write that number, or put it in quotes"
        yield document.problem(path, message, hint, "warning")


def _scalars(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    for key, child in node.children.items():
        if not path and key in _APART:
            continue
        here = (*path, key)
        if isinstance(child.value, dict | list):
            yield from _scalars(child, here)
        else:
            yield here, child


def _counts(document: Document) -> Iterator[Problem]:
    """`{A100:1}` is the key `A100:1` without a value; what was meant is taken, so it is said."""
    for field in ("accelerators", "gpus"):
        path: Path = ("resources", field)
        node = document.root.child("resources")
        written = node.child(field) if node else None
        if written is None or document.get(*path) is not written.value:
            continue
        for key, value in entries(written.value):
            if value is None and _COUNTED.fullmatch(key) and _unquoted(written, key):
                name, _, count = key.partition(":")
                message = f"YAML reads this as one key {printable(key)!r} without a value"
                hint = f"it is taken for {printable(name)}: {count}; a space after the colon"
                hint += " says so"
                yield document.problem((*path, key), message, hint, "warning", key=True)


def _unquoted(node: Node, key: str) -> bool:
    """Say whether a key without a value has no quotes: the value would start where it ends."""
    (line, column), child = node.keys[key], node.children[key]
    return (child.line, child.column) == (line, column + len(key))


RULES: tuple[Callable[[Document], Iterator[Problem]], ...] = (_numbers, _counts)
