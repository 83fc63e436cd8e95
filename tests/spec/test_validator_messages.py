"""Messages never contain the prose of the validator library."""

import json
from typing import Any

import pytest

from kubectl_sky.spec import schema, schema_errors
from kubectl_sky.words import assets

PROSE = (
    "is not valid under",
    "is not of type",
    "is not one of",
    "does not match",
    "is a required property",
    "Additional properties",
    "were unexpected",
    "is too long",
    "is too short",
    "is less than the",
    "is greater than the",
    "has non-unique elements",
    "is not a multiple of",
    "does not have enough properties",
    "has too many properties",
    "should be non-empty",
    "schema",
    "something else",
    "$.",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    -7,
    10**9,
    0.5,
    float("nan"),
    "",
    "?! no such thing",
    "100G",
    [],
    [[]],
    [None, {"foo": 1}],
    {},
    {"foo": {"bar": None}},
    {"a": {}, "b": []},
)


def fields(name: str) -> list[str]:
    return list(json.loads(assets.read("schemas", f"{name}.json"))["properties"])


def inner(name: str, field: str) -> list[str]:
    node = json.loads(assets.read("schemas", f"{name}.json"))["properties"][field]
    nodes = [node, *node.get("anyOf", [])]
    return [key for one in nodes for key in one.get("properties", {})]


@pytest.mark.parametrize("name", schema.NAMES)
def test_schema_messages_contain_no_validator_prose(name: str) -> None:
    inputs: list[Any] = [value for value in VALUES if not isinstance(value, dict)]
    for field in fields(name):
        inputs += [{field: value} for value in VALUES]
        inputs += [{field: {key: value}} for key in inner(name, field) for value in VALUES]
        inputs += [{field: [value]} for value in VALUES]
    told = [found for data in inputs for found in schema_errors.check(data, name)]
    assert len(told) > len(fields(name))
    for found in told:
        text = f"{found.message} {found.hint}"
        assert not [phrase for phrase in PROSE if phrase in text], (found.path, text)
        assert "^" not in text
