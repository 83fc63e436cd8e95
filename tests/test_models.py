"""docs/json.md and the OpenAPI have the fields of the models."""

import os
import re
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from kubectl_sky.words import models
from kubectl_sky.words.names import API_VERSION

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "json.md"
TYPESCRIPT = ROOT / "web" / "src" / "models.ts"
# What the dashboard reads; the types that they use come along.
OF_DASHBOARD = (
    models.Task,
    models.Pipeline,
    models.Problem,
    models.Diagnosis,
    models.NodeUsage,
    models.Timeline,
    models.Volume,
    models.GpuNode,
    models.GpuHoursList,
    models.ServiceFields,
    models.QueueFields,
    models.ClusterEvent,
    models.WhoAmI,
)
_HEADING = (
    "// Made of kubectl_sky/words/models.py by UPDATE_GOLDEN=1 pytest tests/test_models.py.\n"
)
TABLES = re.compile(
    r"(<!-- made of kubectl_sky/words/models\.py.*? -->\n)(.*?)(<!-- end -->)", re.S
)
KINDS = {
    name: kind
    for name, kind in vars(models).items()
    if is_typeddict(kind) and kind is not models.Document and "apiVersion" in kind.__required_keys__
}


def check(document: Mapping[str, Any]) -> None:
    """Assert that a document has the fields of its kind, and no others."""
    assert document["apiVersion"] == API_VERSION
    assert list(document)[:2] == ["apiVersion", "kind"]
    kind = KINDS[document["kind"]]
    assert msgspec.convert(document, kind, strict=True) == document, "a field is not documented"


def nested(kind: Any) -> Iterator[Any]:
    """Yield the documented types in a type, in order of their first use."""
    if is_typeddict(kind):
        yield kind
    for part in get_args(kind):
        if part is not kind:
            yield from nested(part)


def type_name(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return type_name(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(
            "null" if part is type(None) else type_name(part) for part in get_args(kind)
        )
    if get_origin(kind) is list:
        return f"list of {type_name(get_args(kind)[0])}"
    if get_origin(kind) is dict:
        return "object"
    names = {str: "string", int: "integer", float: "number", bool: "boolean"}
    return names.get(kind) or f"[{kind.__name__}](#{kind.__name__.lower()})"


def tables() -> str:
    """Return a table for each kind, then for each type that they use."""
    order: dict[Any, None] = dict.fromkeys(KINDS.values())
    for kind in list(order):
        _add_nested(kind, order)
    return "".join(_table(kind) for kind in order)


def _add_nested(kind: Any, order: dict[Any, None]) -> None:
    for field in get_type_hints(kind, include_extras=True).values():
        for part in nested(field):
            if part not in order:
                order[part] = None
                _add_nested(part, order)


def _table(kind: Any) -> str:
    rows = []
    for name, field in get_type_hints(kind, include_extras=True).items():
        if name in ("apiVersion", "kind"):
            continue
        hint = get_args(field)[0] if "NotRequired" in str(get_origin(field)) else field
        note = get_args(hint)[1] if get_origin(hint) is Annotated else ""
        required = "" if name in kind.__required_keys__ else "no"
        rows.append(f"| `{name}` | {required} | {type_name(hint)} | {note} |\n")
    return (
        f"### {kind.__name__}\n\n{kind.__doc__}\n\n"
        f"| field | always | type | |\n|---|---|---|---|\n{''.join(rows)}\n"
    )


def interfaces() -> str:
    """Return a TypeScript interface for each type of the dashboard."""
    order: dict[Any, None] = dict.fromkeys(OF_DASHBOARD)
    for kind in list(order):
        _add_nested(kind, order)
    return _HEADING + "".join(_interface(kind) for kind in order)


def _interface(kind: Any) -> str:
    lines = [
        f"  {name}{'' if name in kind.__required_keys__ else '?'}: {typescript(field)};\n"
        for name, field in get_type_hints(kind).items()
        if name not in ("apiVersion", "kind")
    ]
    return f"\nexport interface {kind.__name__} {{\n{''.join(lines)}}}\n"


def typescript(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(typescript(part) for part in get_args(kind))
    if get_origin(kind) is list:
        item = typescript(get_args(kind)[0])
        return f"({item})[]" if " " in item else f"{item}[]"
    if get_origin(kind) is dict:
        return f"Record<string, {typescript(get_args(kind)[1])}>"
    names = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
    return names.get(kind) or str(kind.__name__)


def test_dashboard_has_types_of_models() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        TYPESCRIPT.write_text(interfaces(), encoding="utf-8")
        return
    assert TYPESCRIPT.read_text(encoding="utf-8") == interfaces(), "run it with UPDATE_GOLDEN=1"


def test_page_has_fields_of_all_kinds() -> None:
    page = PAGE.read_text(encoding="utf-8")
    match = TABLES.search(page)
    assert match
    if os.environ.get("UPDATE_GOLDEN"):
        text = page[: match.start(2)] + tables() + page[match.end(2) :]
        PAGE.write_text(text, encoding="utf-8")
        return
    assert match[2] == tables(), "run it with UPDATE_GOLDEN=1"


def test_openapi_has_notes_of_models() -> None:
    adapter = TypeAdapter[models.Task](models.Task)
    node = adapter.json_schema()["$defs"]["Node"]
    assert node["properties"]["host"]["description"] == "the cluster node that its pod runs on"
    assert node["description"] == models.Node.__doc__


def test_undocumented_field_is_noticed() -> None:
    version = {"apiVersion": API_VERSION, "kind": "Version", "version": "1"}
    check(version)
    with pytest.raises(AssertionError):
        check(version | {"other": 1})
    with pytest.raises(msgspec.ValidationError):
        check({"apiVersion": API_VERSION, "kind": "Version"})
