"""Commands print, and the dashboard and the OpenAPI have, the fields of the documents."""

import importlib
import os
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from msgspec import Struct

import kubectl_sky
import kubectl_sky_server
from kubectl_sky.actions.local import LocalCluster
from kubectl_sky.observe.endpoints import Ports
from kubectl_sky.observe.queues import Queue
from kubectl_sky.serve.model import Service
from kubectl_sky.tasks.describe import ClusterEvent
from kubectl_sky.words import documents
from kubectl_sky.words.documents import API_VERSION, Document
from kubectl_sky_server.rest.cluster import WhoAmI
from kubectl_sky_server.users.model import User

ROOT = Path(__file__).parent.parent
TYPESCRIPT = ROOT / "packages" / "server" / "web" / "src" / "models.ts"
# What the dashboard reads; the types that they use come along.
OF_DASHBOARD = (
    "Task",
    "Pipeline",
    "Problem",
    "Diagnosis",
    "Usage",
    "Timeline",
    "Goodput",
    "Volume",
    "AcceleratorNode",
    "GpuHoursList",
    "Service",
    "Queue",
    "Quota",
    "ClusterEvent",
    "WhoAmI",
)
_HEADING = "// Made of the documents by UPDATE_GOLDEN=1 pytest tests/test_documents.py.\n"
_REFERENCE = re.compile(r"'#/\$defs/(\w+)'")

for _package in (kubectl_sky, kubectl_sky_server):
    for _module in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_module.name)
# What lists have without apiVersion and kind.
_IN_LISTS: tuple[type[Struct], ...] = (LocalCluster, Ports, Queue, Service, User)
KINDS: dict[str, type[Struct]] = {
    kind.__name__: kind for kind in (*_IN_LISTS, *Document.__subclasses__())
}
SCHEMAS = documents.schemas([*KINDS.values(), ClusterEvent, WhoAmI], "#/$defs/{name}")[1]
for _kind in _IN_LISTS:  # which these documents have, too
    SCHEMAS[_kind.__name__]["properties"] |= {"apiVersion": {}, "kind": {}}


def check(document: Mapping[str, Any]) -> None:
    """Assert that a document has the fields of its kind, and no others."""
    assert document["apiVersion"] == API_VERSION
    assert list(document)[:2] == ["apiVersion", "kind"]
    closed = {
        name: schema | {"additionalProperties": False} if "properties" in schema else schema
        for name, schema in SCHEMAS.items()
    }
    schema = {"$ref": f"#/$defs/{document['kind']}", "$defs": closed}
    Draft202012Validator(schema).validate(document)


def reference(schema: Mapping[str, Any]) -> str:
    """Return the name of the schema that a field has; empty for a text of a fixed list."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return "" if "enum" in SCHEMAS.get(name, {}) else name


def interfaces() -> str:
    """Return a TypeScript interface for each type of the dashboard."""
    order = dict.fromkeys(OF_DASHBOARD)
    for name in list(order):
        _add_parts(name, order)
    return _HEADING + "".join(map(_interface, order))


def _add_parts(name: str, order: dict[str, None]) -> None:
    for part in _REFERENCE.findall(str(SCHEMAS[name])):
        if part not in order and "enum" not in SCHEMAS[part]:
            order[part] = None
            _add_parts(part, order)


def _interface(name: str) -> str:
    schema = SCHEMAS[name]
    lines = [
        f"  {field}{'' if field in schema['required'] else '?'}: {typescript(value)};\n"
        for field, value in schema["properties"].items()
        if field not in ("apiVersion", "kind")
    ]
    return f"\nexport interface {name} {{\n{''.join(lines)}}}\n"


def typescript(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(map(typescript, schema["anyOf"]))
    if name := reference(schema):
        return name
    if schema.get("type") == "array":
        item = typescript(schema["items"])
        return f"({item})[]" if " " in item else f"{item}[]"
    if schema.get("type") == "object":
        return f"Record<string, {typescript(schema['additionalProperties'])}>"
    kind = str(schema.get("type", "string"))
    return {"integer": "number"}.get(kind, kind)


def test_dashboard_has_types_of_documents() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        TYPESCRIPT.write_text(interfaces(), encoding="utf-8")
        return
    assert TYPESCRIPT.read_text(encoding="utf-8") == interfaces(), "run it with UPDATE_GOLDEN=1"


def test_undocumented_field_is_noticed() -> None:
    stopped = {"apiVersion": API_VERSION, "kind": "Stopped", "count": 0, "status": ""}
    stopped |= {"message": "", "task_ids": []}
    check(stopped)
    with pytest.raises(ValidationError):
        check(stopped | {"other": 1})
    with pytest.raises(ValidationError):
        check({"apiVersion": API_VERSION, "kind": "Stopped"})
