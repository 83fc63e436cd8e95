"""The shape of an object by its schema: unknown fields, wrong types, defaults and limits."""

import json
import re
from collections.abc import Iterator
from typing import Any

from kubectl_sky.practice import problems, schemas
from kubectl_sky.practice.decoding import NAMES
from kubectl_sky.practice.problems import Cause
from kubectl_sky.practice.resources import Json, Resource

_ENCODED = {"configmaps": "binaryData", "secrets": "data"}  # fields with values in base64
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def unknown(value: Any, schema: Json, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that the schema does not have."""
    if isinstance(value, dict):
        for key, inner in value.items():
            below = schemas.field(schema, key)
            here = f"{path}.{key}" if path else key
            if below is None:
                yield here
            else:
                yield from unknown(inner, below, here)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from unknown(inner, schemas.items(schema), f"{path}[{index}]")


def pruned(value: Any, schema: Json) -> Any:
    """Return a value without the fields that its schema does not have, and without nulls."""
    if isinstance(value, dict):
        fields = ((key, inner, schemas.field(schema, key)) for key, inner in value.items())
        return {
            key: pruned(inner, below)
            for key, inner, below in fields
            if below is not None and (inner is not None or below.get("nullable"))
        }
    if isinstance(value, list):
        inner = schemas.items(schema)
        return [pruned(item, inner) for item in value]
    return value


def defaulted(value: Any, schema: Json) -> Any:
    """Return a custom object with the defaults that its schema gives."""
    if isinstance(value, dict):
        known = schema.get("properties") or {}
        missing = {
            key: below["default"]
            for key, below in known.items()
            if key not in value and "default" in below
        }
        full = {**value, **missing}
        return {
            key: defaulted(inner, schemas.field(schema, key) or {}) for key, inner in full.items()
        }
    if isinstance(value, list):
        return [defaulted(item, schemas.items(schema)) for item in value]
    return value


def not_decoded(resource: Resource, why: str) -> problems.Problem:
    """Say that a body cannot be read as an object of a kind."""
    named = f'{resource.kind} in version "{resource.version}"'
    return problems.bad_request(f"{named} cannot be handled as a {resource.kind}: {why}")


def mistyped(obj: Json, resource: Resource) -> str:
    """Say what the real server could not decode of a built-in object: values of wrong types."""
    for path, value, schema in _mistyped(obj, schemas.root(resource), resource.kind):
        found = NAMES[type(value)]
        wanted = schemas.go_type(schema)
        return f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"
    for value in (obj.get(_ENCODED.get(resource.storage, "")) or {}).values():
        wrong = re.search(r"[^A-Za-z0-9+/=\r\n]", value)
        if wrong or len(re.sub(r"\s", "", value)) % 4:
            at = wrong.start() if wrong else len(value) // 4 * 4
            return f"illegal base64 data at input byte {at}"
    return ""


def untyped(value: Any, schema: Json, path: str = "") -> Iterator[str]:
    """Yield what of an object that is applied does not fit the schema of its kind."""
    if not _fits(value, schema):
        wanted = {"array": "list", "object": "map"}.get(schema["type"], schema["type"])
        found = f"&value.valueUnstructured{{Value:{json.dumps(value)}}}"
        yield f"{path}: expected {wanted}, got {found}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            below = schemas.field(schema, key)
            if below is None:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from untyped(inner, below, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from untyped(inner, schemas.items(schema), f"{path}[{index}]")


def _fits(value: Any, schema: Json) -> bool:
    wanted = schema.get("type", "")
    if value is None or not wanted or schema.get("format") == "int-or-string":
        return True
    exact = not (wanted in ("integer", "number") and isinstance(value, bool))
    return exact and isinstance(value, _TYPES[wanted])


def _mistyped(
    value: Any, schema: Json, owner: str = "", path: str = ""
) -> Iterator[tuple[str, Any, Json]]:
    """Yield path, value and schema; a path begins with the struct that has the field."""
    if not _fits(value, schema):
        yield f"{owner}{path}", value, schema
    elif isinstance(value, dict):
        owner = schema.get("x-name", owner)
        for key, inner in value.items():
            here = f"{path}.{key}" if key in (schema.get("properties") or ()) else path
            yield from _mistyped(inner, schemas.field(schema, key) or {}, owner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from _mistyped(inner, schemas.items(schema), owner, path)


def causes(value: Any, schema: Json, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with a custom object by its schema."""
    wanted = schema.get("type", "")
    if value is None and schema.get("nullable"):
        return
    mistyped = next(_mistyped(value, {**schema, "properties": {}, "items": {}}), None)
    if wanted and (mistyped or value is None):
        shown = NAMES.get(type(value), "null")
        text = f'Invalid value: "{shown}": {path} in body must be of type {wanted}: "{shown}"'
        yield Cause("FieldValueTypeInvalid", path, text)
        return
    yield from _limits(value, schema, path)
    if isinstance(value, dict):
        yield from _fields(value, schema, path)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from causes(inner, schemas.items(schema), f"{path}[{index}]")


def _fields(value: Json, schema: Json, path: str) -> Iterator[Cause]:
    for key in schema.get("required") or ():
        if key not in value:
            yield Cause("FieldValueRequired", f"{path}.{key}".strip("."), "Required value")
    for key, inner in value.items():
        below = schemas.field(schema, key)
        if below and key != "metadata":
            yield from causes(inner, below, f"{path}.{key}".strip("."))


def _limits(value: Any, schema: Json, path: str) -> Iterator[Cause]:
    enum = schema.get("enum")
    if enum and value not in enum:
        known = ", ".join(json.dumps(one) for one in enum)
        text = f"Unsupported value: {json.dumps(value)}: supported values: {known}"
        yield Cause("FieldValueNotSupported", path, text)
    most = schema.get("maxLength")
    if isinstance(value, str) and most is not None and len(value) > most:
        yield Cause("FieldValueTooLong", path, f"Too long: may not be more than {most} bytes")
        return
    size = len(value) if isinstance(value, str | list) else value
    many = "Items" if isinstance(value, list) else "Length" if isinstance(value, str) else "imum"
    for name, sign, words in (
        ("min", -1, "should be greater than or equal to"),
        ("max", 1, "should be less than or equal to"),
    ):
        limit = schema.get(name + many)
        if limit is not None and not isinstance(value, bool) and (size - limit) * sign > 0:
            text = f"Invalid value: {json.dumps(value)}: {path} in body {words} {limit}"
            yield Cause("FieldValueInvalid", path, text)
    pattern = schema.get("pattern")
    if pattern and isinstance(value, str) and not re.search(pattern, value):
        text = f"Invalid value: {json.dumps(value)}: {path} in body should match '{pattern}'"
        yield Cause("FieldValueInvalid", path, text)
