"""Warn about text that YAML 1.1 does not read as people do.

For example, `0755` is 493, `1:30` is 90, and `{A100:1}` has no count. Variables have their own
rule, which reports what the task sees.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document, Node, Path, entries, printable

_OCTAL = re.compile(r"[-+]?0[0-7_]*[1-9][0-7_]*")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_NAME_WITH_COUNT = re.compile(r"[^:]+:[0-9.]+")
_VARIABLE_FIELDS = ("envs", "secrets")
_UNFINISHED = re.compile(r"(&&|\|\|?|;|[({,])$|\b(do|then|else)$")  # the command goes on
_CONTINUED = re.compile(r"-|&&|\||;|[0-9]?[<>]|[)}]")


def _numbers(document: Document) -> Iterator[Problem]:
    for path, number in _misread_numbers(document.root, ()):
        if str(path[0]).startswith("x-") or path[0] in _VARIABLE_FIELDS:
            continue  # anchors are read where they are used; variables have their own rule
        if document.get(*path) is not number.value:
            continue  # a flag overrides the value
        message = f"YAML reads {printable(number.text)} as {_yaml_meaning(number.text)}"
        hint = "write that number, or put it in quotes"
        shown = f"{message}: {printable(str(number.value))}"
        yield document.problem(path, shown, hint, "warning")


def _misread_numbers(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    """Yield the numbers that YAML does not read as people do, with their paths."""
    for key, child in node.children.items():
        if child.children:
            yield from _misread_numbers(child, (*path, key))
        elif type(child.value) in (int, float) and _yaml_meaning(child.text):
            yield (*path, key), child


def _yaml_meaning(text: str) -> str:
    """Return how YAML reads a number; "" if people read it the same way."""
    if _SEXAGESIMAL.fullmatch(text):
        return "a number in base 60"
    return "an octal number" if len(text) > 1 and _OCTAL.fullmatch(text) else ""


def _counts(document: Document) -> Iterator[Problem]:
    """Warn about `{A100:1}`: YAML reads one key without a value; a count is assumed."""
    node = document.root.child("resources")
    for field in ("accelerators", "gpus"):
        path: Path = ("resources", field)
        field_node = node.child(field) if node else None
        if field_node is None or not isinstance(field_node.value, dict):
            continue
        if document.get(*path) is not field_node.value:
            continue  # a flag overrides the value
        for key, value in entries(field_node.value):
            if value is None and _NAME_WITH_COUNT.fullmatch(key) and _unquoted(field_node, key):
                name, _, count = key.partition(":")
                message = f'YAML reads this as one key "{printable(key)}" without a value'
                hint = f"it is read as {printable(name)}: {count}; add a space after the colon"
                yield document.problem((*path, key), message, hint, "warning", key=True)


def _unquoted(node: Node, key: str) -> bool:
    """Whether a key without a value is unquoted: the value starts where the key ends."""
    (line, column), child = node.keys[key], node.children[key]
    return child.position == (line, column + len(key))


def _folded(document: Document) -> Iterator[Problem]:
    """Warn about commands on several lines that YAML joins into one, without `|`."""
    for field in ("setup", "run"):
        node = document.root.child(field)
        if node is None or document.get(field) is not node.value:
            continue
        lines = [line.strip() for line in node.lines if line.strip()]
        if any(
            not (_UNFINISHED.search(before) or _CONTINUED.match(line))
            for before, line in pairwise(lines)
        ):
            message = f"YAML joins these {len(lines)} lines into one command"
            hint = f'write "{field}: |" to keep the lines, or "{field}: >" to join them'
            yield document.problem((field,), message, hint, "warning")


RULES = (_numbers, _folded)
RULES_OF_RESOURCES = ((frozenset({"accelerators", "gpus"}), (_counts,)),)
