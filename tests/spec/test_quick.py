"""Our reading of JSON Schema and jsonschema's are of one mind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from kubectl_sky.spec import schema
from kubectl_sky.spec.quick import compiled
from kubectl_sky.spec.wrong import wrongs
from tests.spec import verdicts

SCHEMAS = [f"{name}.json" for name in schema.NAMES]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.sampled_from(["a", "b1", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "x-c", "d"]), inner, max_size=3)
    ),
    max_leaves=6,
)
BOUNDS = st.integers(0, 2)
KEYWORDS: dict[str, Any] = {
    "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
    | st.just(["string", "integer"]),
    "enum": st.sampled_from([["a", "b1"], ["a", 1, None, {"a": 1}], [True, 0]]),
    "pattern": st.sampled_from(["^a", "[0-9]$"]),
    "minimum": BOUNDS,
    "exclusiveMinimum": BOUNDS,
    "maximum": BOUNDS,
    "minLength": BOUNDS,
    "maxLength": BOUNDS,
    "minItems": BOUNDS,
    "maxItems": BOUNDS,
    "minProperties": BOUNDS,
    "maxProperties": BOUNDS,
    "uniqueItems": st.just(True),
    "required": st.just(["a"]),
    "not": st.just({"type": "string"}),
    "description": st.just("x"),
}


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            **KEYWORDS,
            "properties": named,
            "patternProperties": st.fixed_dictionaries({"^x-": inner}),
            "additionalProperties": inner | st.booleans(),
            "propertyNames": inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
        },
    )


ANY_SCHEMA = st.recursive(st.fixed_dictionaries({}, optional=KEYWORDS), deeper, max_leaves=4)


@given(ANY_SCHEMA, VALUES)
def test_jsonschema_agrees(rules: Any, data: Any) -> None:
    expected = Draft202012Validator(rules).is_valid(data)
    assert compiled(rules, schema.test_of)(data) == expected
    assert (not list(wrongs(rules, data))) == expected


def test_jsonschema_agrees_on_the_same_places() -> None:
    """In every text that SkyPilot was asked about."""
    for name in ("task", "header", "volume"):
        plain = _plain(f"{name}.json")
        for text, said in verdicts.table().items():
            if said and said.startswith(
                ("Parser", "Scanner", "Constructor", "Composer", "Recursion")
            ):
                continue
            for loaded in yaml.safe_load_all(text):
                data = json.loads(json.dumps(loaded, skipkeys=True, default=str))  # names are text
                found = {(one.keyword, one.path) for one in wrongs(plain.schema, data)}
                expected = {
                    (str(error.validator), tuple(error.absolute_path))
                    for error in plain.iter_errors(data)
                }
                assert {one for one in found if one[0] != "x-unknown"} == expected, (name, text)


def _plain(reference: str) -> Any:
    """Return jsonschema's validator; it follows references as we do."""

    def followed(validator: Any, reference: str, data: Any, _: object) -> Any:
        yield from validator.descend(data, _undeclared(reference))

    kind: Any = extend(Draft202012Validator, {"$ref": followed})  # type: ignore[no-untyped-call]
    return kind(_undeclared(reference))


def _undeclared(reference: str) -> dict[str, Any]:
    """Return a schema that does not say what it is, for which jsonschema would leave our way."""
    named = schema.target(reference)
    return {key: value for key, value in named.items() if key not in ("$schema", "$id")}


def test_every_keyword_of_the_schemas_is_known() -> None:
    for name in (*schema.NAMES, "pod"):
        for node in _schemas(schema.text_of(f"{name}.json")):
            compiled(node, schema.test_of)


def _schemas(node: Any) -> Iterator[Any]:
    """Yield a schema and those in it."""
    if isinstance(node, dict):
        yield node
        for name in ("properties", "patternProperties", "$defs"):
            for below in node.get(name, {}).values():
                yield from _schemas(below)


def test_what_is_right_is_seen_to_be_so() -> None:
    files = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
    for file in files:
        for data in yaml.safe_load_all(file.read_text()):
            assert any(schema.right(data, name) for name in ("task", "header", "volume")), file


def test_references_name_their_file() -> None:
    text = json.dumps(schema.text_of("resources.json"))
    assert '"$ref": "#' not in text
    assert '"$ref": "resources.json#/$defs/candidate"' in text
