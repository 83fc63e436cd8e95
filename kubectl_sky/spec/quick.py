"""A schema as functions: they say of data that it is right, or that somebody has to look closer.

No function says that data is right which JSON Schema 2020-12 calls wrong. The other way round is
allowed: keywords that are not known here are never right.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any

from kubectl_sky.spec.document import Data

Test = Callable[[Data], bool]
Schema = Mapping[str, Any]
Follow = Callable[[str], Test]  # gives the test of what a reference names

_SILENT = frozenset(  # keywords that ask for nothing
    {"title", "description", "examples", "default", "deprecated", "x-expected", "x-values", "$defs"}
)
_MAX_UNIQUE = 100  # items; more take longer to compare than to look closer


def compiled(schema: Schema | bool, follow: Follow) -> Test:
    """Return the test of a schema; `follow` gives those of its references when they are needed."""
    if isinstance(schema, bool):
        return lambda data: schema is True
    makers = dict.fromkeys(_KEYWORDS.get(name, _unknown) for name in schema if name not in _SILENT)
    tests = [make(schema, follow) for make in makers]
    return _both(tests) if tests else lambda data: True


def _both(tests: Sequence[Test]) -> Test:
    """Return the test that all are passed; two by two is twice as fast as by a loop."""
    if len(tests) == 1:
        return tests[0]
    one, others = tests[0], _both(tests[1:])
    return lambda data: one(data) and others(data)


def _unknown(_: Schema, __: Follow) -> Test:
    return _never


def _never(data: Data) -> bool:
    return False


_TYPES: dict[str, Test] = {
    "string": lambda data: isinstance(data, str),
    "integer": lambda data: isinstance(data, int) and not isinstance(data, bool),
    "number": lambda data: isinstance(data, int | float) and not isinstance(data, bool),
    "boolean": lambda data: isinstance(data, bool),
    "array": lambda data: isinstance(data, list),
    "object": lambda data: isinstance(data, dict),
    "null": lambda data: data is None,
}


def _type(schema: Schema, _: Follow) -> Test:
    kinds = schema["type"]
    if isinstance(kinds, str):
        return _TYPES[kinds]
    tests = [_TYPES[kind] for kind in kinds]
    return lambda data: any(test(data) for test in tests)


def _ref(schema: Schema, follow: Follow) -> Test:
    return lambda data: follow(schema["$ref"])(data)


def _any_of(schema: Schema, follow: Follow) -> Test:
    tests = [compiled(one, follow) for one in schema["anyOf"]]
    return lambda data: any(test(data) for test in tests)


def _enum(schema: Schema, _: Follow) -> Test:
    texts = frozenset(one for one in schema["enum"] if isinstance(one, str))
    return lambda data: isinstance(data, str) and data in texts


def _pattern(schema: Schema, _: Follow) -> Test:
    found = re.compile(schema["pattern"]).search
    return lambda data: not isinstance(data, str) or found(data) is not None


def _properties(schema: Schema, follow: Follow) -> Test:
    """All of a map's fields: those with names, and what the others have to be."""
    named = {name: compiled(one, follow) for name, one in schema.get("properties", {}).items()}
    free = [re.compile(one).search for one in schema.get("patternProperties", {})]
    rest = compiled(schema.get("additionalProperties", True), follow)
    if "x-unknown" in schema or any(one not in ({}, True) for one in _patterned(schema)):
        rest = _never

    def test(data: Data) -> bool:
        if not isinstance(data, dict):
            return True
        for name, value in data.items():
            known = named.get(name)
            if known is None and any(found(str(name)) for found in free):
                continue
            if not (known or rest)(value):
                return False
        return True

    return test


def _patterned(schema: Schema) -> list[Schema]:
    """Return the schemas of fields whose names fit a pattern, without what asks for nothing."""
    return [
        {name: value for name, value in one.items() if name not in _SILENT}
        for one in schema.get("patternProperties", {}).values()
    ]


def _names(schema: Schema, follow: Follow) -> Test:
    test = compiled(schema["propertyNames"], follow)
    return lambda data: not isinstance(data, dict) or all(map(test, data))


def _required(schema: Schema, _: Follow) -> Test:
    needed = frozenset(schema["required"])
    return lambda data: not isinstance(data, dict) or needed <= data.keys()


def _items(schema: Schema, follow: Follow) -> Test:
    test = compiled(schema["items"], follow)
    return lambda data: not isinstance(data, list) or all(map(test, data))


def _unique(schema: Schema, _: Follow) -> Test:
    def test(data: Data) -> bool:
        if not isinstance(data, list):
            return True
        before = (data[:index] for index in range(len(data)))
        each = zip(data, before, strict=True)
        return len(data) <= _MAX_UNIQUE and not any(item in others for item, others in each)

    return test


def _bound(
    name: str, kinds: type | UnionType, keeps: Callable[[Any, Any], bool]
) -> Callable[..., Test]:
    """Return what makes the test of a bound on values of these kinds."""

    def make(schema: Schema, _: Follow) -> Test:
        bound = schema[name]
        return lambda data: not isinstance(data, kinds) or keeps(data, bound)

    return make


_KEYWORDS: dict[str, Callable[[Schema, Follow], Test]] = {
    "type": _type,
    "$ref": _ref,
    "anyOf": _any_of,
    "enum": _enum,
    "pattern": _pattern,
    "properties": _properties,
    "patternProperties": _properties,
    "additionalProperties": _properties,
    "x-unknown": _properties,
    "propertyNames": _names,
    "required": _required,
    "items": _items,
    "uniqueItems": _unique,
    "minimum": _bound("minimum", int | float, lambda data, bound: data >= bound),
    "exclusiveMinimum": _bound("exclusiveMinimum", int | float, lambda data, bound: data > bound),
    "maximum": _bound("maximum", int | float, lambda data, bound: data <= bound),
    "minLength": _bound("minLength", str, lambda data, bound: len(data) >= bound),
    "maxLength": _bound("maxLength", str, lambda data, bound: len(data) <= bound),
    "minItems": _bound("minItems", list, lambda data, bound: len(data) >= bound),
    "maxItems": _bound("maxItems", list, lambda data, bound: len(data) <= bound),
    "minProperties": _bound("minProperties", dict, lambda data, bound: len(data) >= bound),
    "maxProperties": _bound("maxProperties", dict, lambda data, bound: len(data) <= bound),
}
