"""Find where data is wrong: the place, and the keyword of the schema that says so."""

import re
from collections.abc import Callable, Iterator

from kubectl_sky.spec.document import Data, Path, entries
from kubectl_sky.spec.quick import SILENT, Schema, compiled
from kubectl_sky.spec.schema import target, test_of
from kubectl_sky.values import dataclass, replace


@dataclass(frozen=True)
class Wrong:
    """What a keyword of a schema says of the data at a path.

    `name` says that the data is the name of a field there. `branches` has what each alternative of
    an `anyOf` says.
    """

    keyword: str
    schema: Schema
    data: Data
    path: Path
    name: bool = False
    branches: tuple[tuple["Wrong", ...], ...] = ()


def wrongs(schema: Schema | bool, data: Data, path: Path = ()) -> Iterator[Wrong]:
    """Yield all that is wrong with data, by each keyword and each part of it."""
    if isinstance(schema, bool):
        if not schema:
            yield Wrong("false", {}, data, path)
        return
    for keyword in schema:
        if keyword in _INTO:
            yield from _INTO[keyword](schema, data, path)
        elif keyword not in SILENT and not compiled({keyword: schema[keyword]}, test_of)(data):
            yield Wrong(keyword, schema, data, path)


def _ref(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    yield from wrongs(target(schema["$ref"]), data, path)


def _any_of(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    branches = tuple(tuple(wrongs(one, data, path)) for one in schema["anyOf"])
    if all(branches):
        yield Wrong("anyOf", schema, data, path, branches=branches)


def _properties(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    for name, one in schema["properties"].items():
        if isinstance(data, dict) and name in data:
            yield from wrongs(one, data[name], (*path, name))


def _free(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    for pattern, one in schema["patternProperties"].items():
        for name, value in entries(data):
            if re.search(pattern, name):
                yield from wrongs(one, value, (*path, name))


def _others(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    """Yield what is wrong with the fields that no other keyword names; once if none may be."""
    known, free = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [
        name
        for name, _ in entries(data)
        if name not in known and not any(re.search(pattern, name) for pattern in free)
    ]
    if schema["additionalProperties"] is False and others:
        yield Wrong("additionalProperties", schema, data, path)
        return
    for name in others:
        yield from wrongs(schema["additionalProperties"], data[name], (*path, name))


def _unknown(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    for name, _ in entries(data):
        if name not in schema["properties"]:
            yield Wrong("x-unknown", schema, name, path, name=True)


def _items(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    for index, item in enumerate(data if isinstance(data, list) else ()):
        yield from wrongs(schema["items"], item, (*path, index))


def _names(schema: Schema, data: Data, path: Path) -> Iterator[Wrong]:
    for name, _ in entries(data):
        for found in wrongs(schema["propertyNames"], name, path):
            yield replace(found, name=True)


_INTO: dict[str, Callable[[Schema, Data, Path], Iterator[Wrong]]] = {
    "$ref": _ref,
    "anyOf": _any_of,
    "properties": _properties,
    "patternProperties": _free,
    "additionalProperties": _others,
    "x-unknown": _unknown,
    "items": _items,
    "propertyNames": _names,
}
