"""The JSON Schemas of tasks, headers, volumes and settings.

They are plain JSON Schema 2020-12 with three annotations that other validators ignore:
`x-expected` describes a value in words, `x-values` lists the values that a pattern stands for,
and `x-unknown: warning` reports unknown fields of an open mapping.
"""

import json
from functools import cache
from typing import Any

from kubectl_sky import assets
from kubectl_sky.spec.document import Data, printable
from kubectl_sky.spec.finding import Finding

NAMES = ("config", "header", "resources", "service", "settings", "storage", "task", "volume")


def check(data: Data, schema: str) -> list[Finding]:
    """Return the errors and warnings of a schema for the data, without duplicates."""
    from kubectl_sky.spec import schema_errors  # importing jsonschema takes most of the time

    return schema_errors.findings(data, f"{schema}.json")


def fields(schema: str) -> frozenset[str]:
    """Return the field names of a schema."""
    return frozenset(load(f"{schema}.json")["properties"])


@cache
def load(file: str) -> Any:  # noqa: ANN401 -- JSON
    """Return a schema file without `$schema`.

    With it, jsonschema would drop our own keywords.
    """
    content = json.loads(assets.read("schemas", file))
    del content["$schema"]
    return content


def resolve(reference: str) -> Any:  # noqa: ANN401 -- JSON
    """Return the part of a schema that a reference such as `task.json#/$defs/x` names."""
    file, _, pointer = reference.partition("#")
    part = load(file)
    for step in pointer.split("/")[1:]:
        part = part[step]
    return part


def described(value: Data) -> str:
    """Describe a value for a message, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        kind, count = ("a map", len(value)) if isinstance(value, dict) else ("a list", len(value))
        return kind if count else f"an empty {kind[2:]}"
    if isinstance(value, str):
        return f'"{printable(value)}"'
    return printable(str(value))
