"""Say what is wrong with data, by jsonschema, in the schema's own words for people."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from kubectl_sky.spec import suggest
from kubectl_sky.spec.document import Data, Path
from kubectl_sky.spec.finding import Finding
from kubectl_sky.spec.schema import described, target

_PLAIN = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?|true|false")

Error = Any  # a ValidationError; its types allow for one that has no schema and no data


def findings(data: Data, reference: str) -> list[Finding]:
    """Return everything that is wrong with data, each once."""
    errors = _validator(reference).iter_errors(data)
    return list(dict.fromkeys(found for error in errors for found in _explained(error)))


@cache
def _validator(reference: str) -> Draft202012Validator:
    keywords = {"x-unknown": _unknown, "$ref": _referred}
    kind = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    found: Draft202012Validator = kind(target(reference))
    return found


def _referred(
    validator: Any,  # noqa: ANN401 -- a class made by jsonschema
    reference: str,
    data: Data,
    _: object,
) -> Iterator[ValidationError]:
    """Follow a reference; the library's own way crawls through all schemas each time."""
    yield from validator.descend(data, target(reference))


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
    plain = str(error.schema.get("type")) in ("integer", "number", "boolean")
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
