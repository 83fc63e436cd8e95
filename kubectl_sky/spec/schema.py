"""Check data against a schema.

The schemas are plain JSON Schema 2020-12 with three annotations that other validators pass over:
`x-expected` says in words what a value is, `x-values` lists the values that a pattern stands for,
and `x-unknown: warning` lets unknown fields of an open mapping be told.

What is right, as most is, is seen to be so by functions made of the schema once; only what is wrong
is looked at closer, to say why.
"""

import json
from functools import cache
from typing import Any

from kubectl_sky import assets
from kubectl_sky.spec.document import Data, printable
from kubectl_sky.spec.finding import Finding
from kubectl_sky.spec.quick import Test, compiled

NAMES = ("config", "header", "resources", "service", "settings", "storage", "task", "volume")


def check(data: Data, schema: str) -> list[Finding]:
    """Return everything that is wrong with data, each once."""
    if right(data, schema):
        return []
    from kubectl_sky.spec import explain  # which needs this module itself

    return explain.findings(data, f"{schema}.json")


def right(data: Data, schema: str) -> bool:
    """Say whether data is right."""
    return test_of(f"{schema}.json")(data)


@cache
def test_of(reference: str) -> Test:
    """Return the test of what a reference names."""
    return compiled(target(reference), test_of)


@cache
def fields(schema: str) -> frozenset[str]:
    """Return the names of a schema's fields."""
    return frozenset(text_of(f"{schema}.json")["properties"])


@cache
def text_of(file: str) -> Any:  # noqa: ANN401 -- JSON
    """Return a schema whose references name their file: who follows one has no place of its own."""
    return _named(json.loads(assets.read("schemas", file)), file)


def _named(node: Any, file: str) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(node, list):
        return [_named(item, file) for item in node]
    if not isinstance(node, dict):
        return node
    named = {key: _named(value, file) for key, value in node.items()}
    if str(named.get("$ref")).startswith("#"):
        named["$ref"] = file + named["$ref"]
    return named


@cache
def target(reference: str) -> Any:  # noqa: ANN401 -- JSON
    """Return what a reference names; its file is read now: most documents never get to a pod."""
    file, _, pointer = reference.partition("#")
    node = text_of(file)
    for step in pointer.split("/")[1:]:
        node = node[step]
    return node


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
