"""The quick way and jsonschema's are of one mind: what is right beyond doubt is right."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kubectl_sky.spec import explain, schema
from kubectl_sky.spec.quick import compiled
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
    "enum": st.just(["a", "b1"]),
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
    "const": st.just("a"),
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
def test_what_is_right_beyond_doubt_is_right(rules: Any, data: Any) -> None:
    if compiled(rules, lambda _: lambda _: False)(data):
        assert Draft202012Validator(rules).is_valid(data)


@pytest.mark.parametrize("name", schema.NAMES)
def test_our_schemas_see_the_same(name: str) -> None:
    for text, said in verdicts.table().items():
        if said and said.startswith(("Parser", "Scanner", "Constructor", "Composer", "Recursion")):
            continue
        for data in yaml.safe_load_all(text):
            if schema.right(data, name):
                assert explain.findings(data, f"{name}.json") == []


def test_what_is_right_is_seen_to_be_so() -> None:
    """Else all would go the slow way, and nobody would know."""
    files = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
    for file in files:
        for data in yaml.safe_load_all(file.read_text()):
            assert any(schema.right(data, name) for name in ("task", "header", "volume")), file


def test_jsonschema_is_loaded_for_what_is_wrong_only(tmp_path: Path) -> None:
    code = (
        "import sys; from kubectl_sky.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
    )
    code += "print('jsonschema' in sys.modules)"
    for text, expected in (("run: x\n", "False"), ("rum: x\n", "True")):
        (tmp_path / "task.yaml").write_text(text)
        command = [sys.executable, "-c", code, "validate", str(tmp_path / "task.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines()[-1] == expected, done.stderr


def test_references_name_their_file() -> None:
    text = json.dumps(schema.text_of("resources.json"))
    assert '"$ref": "#' not in text
    assert '"$ref": "resources.json#/$defs/candidate"' in text
