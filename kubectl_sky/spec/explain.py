"""Say what is wrong with data, in the schema's own words for people."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from kubectl_sky.spec import suggest
from kubectl_sky.spec.document import Data
from kubectl_sky.spec.finding import Finding
from kubectl_sky.spec.schema import described, target
from kubectl_sky.spec.wrong import Wrong, wrongs

_PLAIN = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?|true|false")


def findings(data: Data, reference: str) -> list[Finding]:
    """Return everything that is wrong with data, each once."""
    found = wrongs(target(reference), data)
    return list(dict.fromkeys(finding for wrong in found for finding in _explained(wrong)))


def _explained(wrong: Wrong) -> Iterator[Finding]:
    branch = _branch(wrong)
    for inner in branch:
        yield from _explained(inner)
    if not branch:
        yield from _EXPLAINERS.get(wrong.keyword, _value)(wrong)


def _branch(wrong: Wrong) -> tuple[Wrong, ...]:
    """Return what is wrong by the one alternative that the value tries to be, by its type."""
    meant = [
        branch
        for branch in wrong.branches
        if not any(inner.keyword == "type" and inner.path == wrong.path for inner in branch)
    ]
    return meant[0] if isinstance(wrong.data, dict | list) and len(meant) == 1 else ()


def _fields(wrong: Wrong) -> Iterator[Finding]:
    known = wrong.schema.get("properties", {})
    free = tuple(pattern.removeprefix("^") for pattern in wrong.schema.get("patternProperties", ()))
    for key in wrong.data:
        if key not in known and not key.startswith(free):
            path = (*wrong.path, key)
            yield Finding(path, "unknown field", suggest.field(path, [*known]), True)


def _ignored(wrong: Wrong) -> Iterator[Finding]:
    path = (*wrong.path, wrong.data)
    hint = suggest.field(path, [*wrong.schema["properties"]])
    yield Finding(path, "unknown field, ignored", hint, True, "warning")


def _missing(wrong: Wrong) -> Iterator[Finding]:
    for name in wrong.schema["required"]:
        if name not in wrong.data:
            yield Finding(wrong.path, f"the field {name!r} is missing")


def _value(wrong: Wrong) -> Iterator[Finding]:
    """A wrong value, or the wrong name of a field that may have any name."""
    expected = expectation(wrong.schema)
    if wrong.name:
        yield Finding((*wrong.path, wrong.data), f"expected {expected}", "", True)
        return
    got = "" if wrong.path[:1] == ("secrets",) else f", got {described(wrong.data)}"
    yield Finding(wrong.path, f"expected {expected}{got}", _hint(wrong))


_EXPLAINERS = {
    "additionalProperties": _fields,
    "required": _missing,
    "x-unknown": _ignored,
}


def _hint(wrong: Wrong) -> str:
    values, text = wrong.schema.get("x-values") or wrong.schema.get("enum"), wrong.data
    if values and isinstance(text, str):
        return suggest.closest(text.partition("/")[0], map(str, values))
    if "string" in str(wrong.schema.get("type")) and isinstance(text, bool | int | float | date):
        return "put it in quotes"
    plain = str(wrong.schema.get("type")) in ("integer", "number", "boolean")
    if plain and isinstance(text, str) and _PLAIN.fullmatch(text):
        return "write it without quotes"
    return ""


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "fields",
    "null": "nothing",
}
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "uniqueItems": "different items",
}


def expectation(schema: Mapping[str, Any]) -> str:
    """Return in words what a value of a schema is."""
    if "x-expected" in schema:
        return str(schema["x-expected"])
    values = schema.get("x-values") or schema.get("enum")
    if values:
        return "one of " + ", ".join(map(str, values))
    bounds = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
    kind = _TYPES.get(str(schema.get("type")), "something else")
    return f"{kind} of {' and '.join(bounds)}" if bounds else kind
