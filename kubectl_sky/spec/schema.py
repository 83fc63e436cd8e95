"""Check data against a schema; what is wrong is said in the schema's own words for people.

The schemas are plain JSON Schema 2020-12 with three annotations that other validators pass over:
`x-expected` says in words what a value is, `x-values` lists the values that a pattern stands for,
and `x-unknown: warning` lets unknown fields of an open mapping be told.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from kubectl_sky import assets
from kubectl_sky.spec import suggest
from kubectl_sky.spec.document import Data, Path, printable

NAMES = ("config", "header", "resources", "service", "settings", "storage", "task", "volume")

Error = Any  # a ValidationError; its types allow for one that has no schema and no data


@dataclass(frozen=True)
class Finding:
    """What is wrong at a path; `key` says that the field itself is, not its value."""

    path: Path
    message: str
    hint: str = ""
    key: bool = False
    severity: str = "error"


def check(data: Data, schema: str) -> list[Finding]:
    """Return everything that is wrong with data, each once."""
    errors = _validator(schema).iter_errors(data)
    return list(dict.fromkeys(found for error in errors for found in _explained(error)))


@cache
def fields(schema: str) -> frozenset[str]:
    """Return the names of a schema's fields."""
    return frozenset(_text(f"{schema}.json")["properties"])


@cache
def _text(file: str) -> Any:  # noqa: ANN401 -- JSON
    text = json.loads(assets.read("schemas", file))
    del text["$schema"]  # jsonschema would leave our `x-unknown` at a file's border
    return text


@cache
def _validator(schema: str) -> Draft202012Validator:
    def retrieve(file: str) -> Resource[Any]:
        """Read a schema where a document gets to it: most never do, and the pod's is large."""
        return DRAFT202012.create_resource(_text(file))

    registry: Registry[Any] = Registry(retrieve=retrieve)  # type: ignore[call-arg]
    kind = extend(Draft202012Validator, {"x-unknown": _unknown})  # type: ignore[no-untyped-call]
    found: Draft202012Validator = kind(_text(f"{schema}.json"), registry=registry)
    return found


def _unknown(
    _: object, __: object, data: Data, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(data, dict):
        for key in data.keys() - schema["properties"].keys():
            yield ValidationError(key)


def _explained(error: Error) -> Iterator[Finding]:
    path = tuple(error.absolute_path)
    if error.validator == "anyOf":
        branch = _branch(error)
        for inner in branch:
            yield from _explained(inner)
        if branch:
            return
    explain = _EXPLAINERS.get(str(error.validator), _value)
    yield from explain(error, path)


def _branch(error: Error) -> list[Error]:
    """Return the errors of the one alternative that the value tries to be, by its type."""
    branches: dict[Any, list[Error]] = {}
    for inner in error.context or []:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    meant = [errors for errors in branches.values() if not any(map(_wrong_type, errors))]
    detailed = isinstance(error.instance, dict | list) and len(meant) == 1
    return meant[0] if detailed else []


def _wrong_type(error: Error) -> bool:
    return error.validator == "type" and not error.relative_path


def _fields(error: Error, path: Path) -> Iterator[Finding]:
    known = error.schema.get("properties", {})
    free = tuple(pattern.removeprefix("^") for pattern in error.schema.get("patternProperties", ()))
    for key in error.instance:
        if key not in known and not key.startswith(free):
            yield Finding(
                (*path, key), "unknown field", suggest.field((*path, key), [*known]), True
            )


def _ignored(error: Error, path: Path) -> Iterator[Finding]:
    path = (*path, error.message)
    hint = suggest.field(path, [*error.schema["properties"]])
    yield Finding(path, "unknown field, ignored", hint, True, "warning")


def _missing(error: Error, path: Path) -> Iterator[Finding]:
    for name in error.validator_value:
        if name not in error.instance:
            yield Finding(path, f"the field {name!r} is missing")


def _value(error: Error, path: Path) -> Iterator[Finding]:
    """A wrong value, or the wrong name of a field that may have any name."""
    expected = expectation(error.schema)
    if "propertyNames" in error.absolute_schema_path:
        yield Finding((*path, error.instance), f"expected {expected}", "", True)
        return
    got = "" if path[:1] == ("secrets",) else f", got {described(error.instance)}"
    yield Finding(path, f"expected {expected}{got}", _hint(error))


_EXPLAINERS = {
    "additionalProperties": _fields,
    "required": _missing,
    "x-unknown": _ignored,
}


def _hint(error: Error) -> str:
    values, text = error.schema.get("x-values") or error.schema.get("enum"), error.instance
    if values and isinstance(text, str):
        return suggest.closest(text.partition("/")[0], map(str, values))
    if "string" in str(error.schema.get("type")) and isinstance(text, bool | int | float | date):
        return "put it in quotes"
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


def described(value: Data) -> str:
    """Return a value as a message says it, cut short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        kind, count = ("a map", len(value)) if isinstance(value, dict) else ("a list", len(value))
        return kind if count else f"an empty {kind[2:]}"
    if isinstance(value, str):
        return f"'{printable(value)}'"
    return printable(str(value))
