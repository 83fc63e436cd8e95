"""Bodies of requests: JSON and YAML, and what the real server says of those that are neither."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from kubectl_sky.practice import problems

NAMES = {str: "string", int: "number", float: "number", bool: "bool", dict: "object", list: "array"}
_HEAD = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
_HEAD += r'Kind string "json:\"kind,omitempty\"" }'
_SURROGATE = re.compile(rb"(\\u[dD][89a-fA-F])|\\.", re.DOTALL)  # or another escape as a whole
_WRONG = (  # Python's words, and Go's, which name a character
    ("Extra data", "after top-level value"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Invalid control", "in string literal"),
    ("Invalid \\escape", "in string escape code"),
)


def json_value(body: bytes) -> Any:
    """Return the value of a text of JSON. Raises ValueError with Go's words."""
    try:
        return json.loads(body.decode(errors="replace"), parse_constant=_constant)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            raise ValueError("unexpected end of JSON input") from None
        where = next((go for python, go in _WRONG if error.msg.startswith(python)), error.msg)
        raise ValueError(f"invalid character '{error.doc[error.pos]}' {where}") from None
    except RecursionError:
        text = f"invalid character '{body[:1].decode()}' exceeded max depth"
        raise ValueError(text) from None


def yaml_value(body: bytes) -> Any:
    """Return the value of a text of YAML, or of JSON. Raises ValueError with Go's words."""
    if body.startswith(b"{") and any(found[1] for found in _SURROGATE.finditer(body)):
        raise ValueError("yaml: found invalid Unicode character escape code")
    try:
        return json_value(body) if body.startswith(b"{") else yaml.safe_load(body)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise ValueError(f"yaml: line {line}: did not find expected node content") from None


def read(body: bytes, content_type: str = "", kind: str = "") -> Any:
    """Return the object of a body, which may have to be of a kind. Raises Problem."""
    try:
        found = yaml_value(body) if "yaml" in content_type else json_value(body)
        if found is not None and not isinstance(found, dict):
            why = f"json: cannot unmarshal {NAMES[type(found)]} into Go value of type {_HEAD}"
            raise ValueError(why)
    except ValueError as error:
        why = str(error)
        if not why.startswith("yaml"):
            why = f"couldn't get version/kind; json parse error: {why}"
        if kind:
            why = f"the object provided is unrecognized (must be of type {kind}): {why}"
            why += f" ({_shown(body)})"
        raise problems.bad_request(why) from None
    return found or {}


def repeated(body: bytes) -> list[str]:
    """Return the paths of the fields that a text of JSON has twice."""
    if not re.search(rb'"(\w+)"\s*:.*"\1"\s*:', body, re.DOTALL):
        return []
    return list(_repeated(json.loads(body, object_pairs_hook=_Pairs), ""))


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON as it was written."""


def _repeated(node: Any, path: str) -> Iterator[str]:
    seen: set[str] = set()
    named = isinstance(node, _Pairs)
    for at, item in enumerate(node if isinstance(node, list) else ()):
        key, value = item if named else (f"{path[:-1]}[{at}]", item)
        here = path + key if named else key
        if here in seen:
            yield here
        seen.add(here)
        yield from _repeated(value, f"{here}.")


def _constant(text: str) -> None:
    raise ValueError(f"invalid character '{text[0]}' looking for beginning of value")


def _shown(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    plain = body.startswith(b"{") and body[:30].isascii()
    return (body[:30].decode() if plain else body[:30].hex()) + more
