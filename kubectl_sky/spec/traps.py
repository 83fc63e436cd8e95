"""What YAML 1.1 reads otherwise than people do: `0755` is 493, `1:30` is 90, `{A100:1}` has no 1.

Variables have a rule of their own, which says what the task sees.
"""

import re
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document, Node, Path, entries, printable

_OCTAL = re.compile(r"[-+]?0[0-7_]*[1-9][0-7_]*")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_COUNTED = re.compile(r"[^:]+:[0-9.]+")
_APART = ("envs", "secrets")


def _numbers(document: Document) -> Iterator[Problem]:
    for path, number in _odd(document.root, ()):
        if path[0] in _APART or document.get(*path) is not number.value:
            continue  # variables have a rule of their own; or a flag says something else
        message = f"YAML reads {printable(number.text)} as {_meant(number.text)}"
        hint = "write that number, or put it in quotes"
        shown = f"{message}: {printable(str(number.value))}"
        yield document.problem(path, shown, hint, "warning")


def _odd(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    """Yield the numbers that people read otherwise, with their paths."""
    for key, child in node.children.items():
        if child.children:
            yield from _odd(child, (*path, key))
        elif type(child.value) in (int, float) and _meant(child.text):
            yield (*path, key), child


def _meant(text: str) -> str:
    """Return how YAML reads a number; "" where everybody reads it so."""
    if _SEXAGESIMAL.fullmatch(text):
        return "a number in base 60"
    return "an octal number" if len(text) > 1 and _OCTAL.fullmatch(text) else ""


def _counts(document: Document) -> Iterator[Problem]:
    """`{A100:1}` is the key `A100:1` without a value; what was meant is taken, so it is said."""
    node = document.root.child("resources")
    for field in ("accelerators", "gpus"):
        path: Path = ("resources", field)
        written = node.child(field) if node else None
        if written is None or not isinstance(written.value, dict):
            continue
        if document.get(*path) is not written.value:
            continue  # a flag says something else
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
    return child.place == (line, column + len(key))


RULES = (_numbers,)
RULES_OF_RESOURCES = ((frozenset({"accelerators", "gpus"}), (_counts,)),)
