"""A schema as functions that say of data whether it is right.

This is as much of JSON Schema 2020-12 as the project's schemas use. It is ours because libraries
take as long to load as all else; jsonschema is its judge in the tests.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from kubectl_sky.spec.document import Data

Test = Callable[[Data], bool]
Schema = Mapping[str, Any]
Follow = Callable[[str], Test]  # gives the test of what a reference names

SILENT = frozenset(  # keywords that ask for nothing
    {"title", "description", "examples", "x-expected", "x-values", "$defs", "$id", "$schema"}
)


def compiled(schema: Schema | bool, follow: Follow) -> Test:
    """Return the test of a schema; `follow` gives those of its references when they are needed."""
    if isinstance(schema, bool):
        return _always if schema else _never
    makers = dict.fromkeys(_KEYWORDS[name] for name in schema if name not in SILENT)
    tests = [make(schema, follow) for make in makers]
    return _both(tests) if tests else _always


def _always(data: Data) -> bool:
    return True


def _never(data: Data) -> bool:
    return False


def _both(tests: Sequence[Test]) -> Test:
    """Return the test that all are passed; two by two is twice as fast as by a loop."""
    if len(tests) == 1:
        return tests[0]
    one, others = tests[0], _both(tests[1:])
    return lambda data: one(data) and others(data)


_TYPES: dict[str, Test] = {
    "string": lambda data: isinstance(data, str),
    "integer": lambda data: type(data) is int or (isinstance(data, float) and data.is_integer()),
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


def _not(schema: Schema, follow: Follow) -> Test:
    test = compiled(schema["not"], follow)
    return lambda data: not test(data)


def _comparable(data: Data) -> Hashable:
    """Return what is equal for what JSON Schema calls equal: true is not 1, and 1.0 is."""
    if isinstance(data, dict):
        return dict, frozenset((name, _comparable(value)) for name, value in data.items())
    if isinstance(data, list):
        return list, tuple(map(_comparable, data))
    return isinstance(data, bool), data


def _enum(schema: Schema, _: Follow) -> Test:
    values = frozenset(map(_comparable, schema["enum"]))
    return lambda data: _comparable(data) in values


def _pattern(schema: Schema, _: Follow) -> Test:
    found = re.compile(schema["pattern"]).search
    return lambda data: not isinstance(data, str) or found(data) is not None


def _properties(schema: Schema, follow: Follow) -> Test:
    """All of a map's fields: those with names, and what the others have to be."""
    named = {name: compiled(one, follow) for name, one in schema.get("properties", {}).items()}
    free = [
        (re.compile(pattern).search, compiled(one, follow))
        for pattern, one in schema.get("patternProperties", {}).items()
    ]
    rest = compiled("x-unknown" not in schema and schema.get("additionalProperties", True), follow)

    def test(data: Data) -> bool:
        if not isinstance(data, dict):
            return True
        for name, value in data.items():
            known = named.get(name)
            fitting = [one for found, one in free if found(str(name))] if free else ()
            if known and not known(value):
                return False
            if fitting and not all(one(value) for one in fitting):
                return False
            if not (known or fitting or rest(value)):
                return False
        return True

    return test


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
    return lambda data: not isinstance(data, list) or len(set(map(_comparable, data))) == len(data)


def _bound(
    name: str, kind: str, keeps: Callable[[Any, Any], bool]
) -> Callable[[Schema, Follow], Test]:
    """Return what makes the test of a bound on values of a kind."""
    concerned = _TYPES[kind]

    def make(schema: Schema, _: Follow) -> Test:
        bound = schema[name]
        return lambda data: not concerned(data) or keeps(data, bound)

    return make


# NaN keeps all bounds, as for jsonschema and SkyPilot.
_KEYWORDS: dict[str, Callable[[Schema, Follow], Test]] = {
    "type": _type,
    "$ref": _ref,
    "anyOf": _any_of,
    "not": _not,
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
    "minimum": _bound("minimum", "number", lambda data, bound: not data < bound),
    "exclusiveMinimum": _bound("exclusiveMinimum", "number", lambda data, bound: not data <= bound),
    "maximum": _bound("maximum", "number", lambda data, bound: not data > bound),
    "minLength": _bound("minLength", "string", lambda data, bound: len(data) >= bound),
    "maxLength": _bound("maxLength", "string", lambda data, bound: len(data) <= bound),
    "minItems": _bound("minItems", "array", lambda data, bound: len(data) >= bound),
    "maxItems": _bound("maxItems", "array", lambda data, bound: len(data) <= bound),
    "minProperties": _bound("minProperties", "object", lambda data, bound: len(data) >= bound),
    "maxProperties": _bound("maxProperties", "object", lambda data, bound: len(data) <= bound),
}
