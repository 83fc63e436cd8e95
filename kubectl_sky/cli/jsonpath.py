"""Render kubectl's JSONPath templates and custom columns.

Examples: `{.tasks[*].task_id}`, `{range .tasks[*]}{.name} {end}`, `ID:.task_id,NAME:.name`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jsonpath
from msgspec import Struct

from kubectl_sky.errors import UserError

# An expression in braces, whose quoted strings may contain braces; otherwise literal text.
_PART = re.compile(r"""\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}|([^{}]+)""")
_COMMA = re.compile(r",(?![^\[(]*[\])])")  # not one within brackets
_HINT = "such as {.nodes[0].pod}"
_HINT_OF_LIST = "such as {.items[*].name}"
_QUOTES = "such as {.items[?(@.name=='a')].task_id}, with plain quotes"
_CURLY = re.compile("[\u2018-\u201f]")
_IDENTIFIER = re.compile(r"[A-Za-z]\w*")


class _Part(Struct, frozen=True):
    """A part of a template: text, a path, or a range with its repeated parts."""

    text: str = ""
    path: str = ""
    body: "tuple[_Part, ...] | None" = None


def render(value: object, template: str) -> str:
    try:
        parts = _parts(template) if "{" in template else (_Part(path=template.strip()),)
        return "".join(_write(value, value, parts))
    except RecursionError:
        raise UserError("jsonpath: too many nested parts", _HINT) from None


def columns(value: Any, spec: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of custom columns, `NAME:PATH` separated by commas.

    A list has a row per item, any other document one row. Raises UserError for an invalid spec.
    """
    header = []
    paths = []

    for column in _COMMA.split(spec):
        name, colon, path = column.partition(":")
        if not (name.strip() and colon and path.strip("{} ")):
            raise UserError(
                f'custom-columns: "{column}" is not of the form NAME:PATH',
                "such as custom-columns=ID:.task_id,NAME:.name",
            )
        header.append(name.strip())
        paths.append(path.strip())

    name = _list_field(value)
    items = value[name] if name else [value]
    return header, [[render(item, path) or "<none>" for path in paths] for item in items]


def _list_field(value: Any) -> str:
    """Return the field that has the items of a list document; empty for any other one."""
    if not isinstance(value, dict) or not str(value.get("kind")).endswith("List"):
        return ""
    return next((name for name, items in value.items() if isinstance(items, list)), "")


def _parts(template: str) -> tuple[_Part, ...]:
    stack: list[tuple[str, list[_Part]]] = [("", [])]
    position = 0

    for match in _PART.finditer(template):
        if match.start() != position:
            break
        position = match.end()

        expression = (match[1] or "").strip()
        text = match[2]
        if text is not None:
            stack[-1][1].append(_Part(text=text))
        elif expression.startswith("range "):
            stack.append((expression.removeprefix("range ").strip(), []))
        elif _IDENTIFIER.fullmatch(expression) and expression != "end":
            raise UserError(
                f"jsonpath: {{{expression}}}: unrecognized identifier",
                f'a field begins with a dot, {{.{expression}}}; text is quoted, {{"\\t"}}',
            )
        elif expression == "end" and len(stack) > 1:
            path, body = stack.pop()
            stack[-1][1].append(_Part(path=path, body=tuple(body)))
        else:
            stack[-1][1].append(_literal(expression) or _Part(path=expression))

    if position != len(template) or len(stack) > 1:
        raise UserError(
            f"jsonpath: {template[position:] or template}: a brace or {{range}} is not closed",
            "use kubectl's syntax: -o jsonpath='{.status}'",
        )
    return tuple(stack[0][1])


def _literal(expression: str) -> _Part | None:
    """Parse a quoted string, in which a newline may be escaped as in JSON."""
    text = expression.strip()
    if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
        return None
    try:
        return _Part(text=str(json.loads(f'"{text[1:-1]}"')))
    except ValueError:
        return _Part(text=text[1:-1])


def _write(root: object, value: object, parts: Sequence[_Part]) -> Iterator[str]:
    for part in parts:
        if part.body is not None:
            for item in _select(root, value, part.path):
                yield from _write(root, item, part.body)
        elif part.path:
            for index, item in enumerate(_select(root, value, part.path)):
                yield f" {_text(item)}" if index else _text(item)
        else:
            yield part.text


def _select(root: Any, value: Any, path: str) -> Iterator[object]:
    """Yield the values at a path: from the root with `$`, else from the current item."""
    start = root if path.startswith("$") else value
    if path in ("@", "$", "."):
        yield start
        return
    path = path.removeprefix("@").removeprefix("$")
    path = path if path[:1] in (".", "[") else f".{path}"
    if start is root and (field := _list_field(root)):
        path = re.sub(r"^\.items\b", f".{field}", path)  # as all lists of kubectl have them
    try:
        for match in jsonpath.finditer(f"${path}", start):
            yield match.obj
    except jsonpath.JSONPathError as error:
        message = str(error).splitlines()[0]
        hint = _HINT_OF_LIST if _list_field(root) else _HINT
        hint = _QUOTES if _CURLY.search(path) else hint
        raise UserError(f"jsonpath: {path}: {message}", hint) from error


def _text(item: object) -> str:
    """Return a value as kubectl prints it: JSON without spaces, and sorted."""
    if isinstance(item, str):
        return item
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
