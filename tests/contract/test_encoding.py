"""Decoding as a type reads its fields, and decoding of all fields checks the type, too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from kubectl_sky.cluster.encoding import Whole, decode
from kubectl_sky.words import kinds
from kubectl_sky.words.answers import ApiResources, page_of
from kubectl_sky.words.objects import AnyObject

Json = dict[str, Any]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=5,
)


def shape_of(kind: kinds.Kind) -> type:
    return kind.shape if isinstance(kind, kinds.ReadKind) else AnyObject


class Inner(Struct):
    kept: Any = None


class Shape(Struct):
    kept: Any = None
    inner: Inner | None = None


LIST = page_of(Shape)
WHOLE_LIST = Whole(LIST)


def answer(items: object) -> bytes:
    return json.dumps({"kind": "List", "metadata": {"continue": "x"}, "items": items}).encode()


@given(kept=VALUES, other=VALUES, name=st.text().filter(lambda name: name not in ("kept", "inner")))
def test_decode_reads_only_fields_of_type(kept: object, other: object, name: str) -> None:
    item = {name: other, "inner": {name: other, "kept": kept}, "kept": kept, "more": other}
    page = decode(answer([item, {}]), LIST)
    assert page.items == [Shape(kept, Inner(kept)), Shape()]
    assert page.metadata.continue_token == "x"
    assert decode(answer([item, {}]), WHOLE_LIST)["items"] == [item, {}]


@given(VALUES)
def test_decode_without_type_reads_all_fields(value: object) -> None:
    assert decode(answer([value]))["items"] == [value]


def test_decode_null_items_are_kept() -> None:
    assert decode(answer(None), LIST).items is None
    assert decode(answer(None), WHOLE_LIST)["items"] is None


@given(st.binary(min_size=1) | st.integers(1, 60).map(lambda size: answer([{"a": "é"}])[:size]))
def test_decode_invalid_list_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data, LIST)


def test_decode_deeply_nested_json_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(b'{"metadata": ' + b"[" * 200_000)
    with pytest.raises(ValueError, match=r"."):
        decode(b'{"metadata": {}, "items": [{"kept": ' + b"[" * 200_000, LIST)


def test_recorded_objects_have_types_of_their_kinds() -> None:
    """Objects of real clusters, which the types must not reject."""
    known = {kind.kind: kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)}
    checked = set()
    for file in (Path(__file__).parents[1] / "observe" / "snapshots").glob("*.json"):
        for kind, items in json.loads(file.read_text())["objects"].items():
            for item in items:
                decode(json.dumps(item).encode(), shape_of(known[kind]))
                checked.add(kind)
    assert {"Job", "Pod", "Event", "Node"} < checked


@pytest.mark.parametrize("run", range(5))
def test_decode_first_time_in_many_threads_does_not_crash(run: int) -> None:
    command = [sys.executable, "-m", "tests.contract.race"]
    assert subprocess.run(command, timeout=60).returncode == 0, run


METADATA = {"name": "a", "uid": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}
CRDS = Path(__file__).parents[3] / "shared" / "crds"
DEFINED = {
    kind: path
    for kind in vars(kinds).values()
    if isinstance(kind, kinds.Kind) and (path := CRDS / f"{kind.group}_{kind.plural}.yaml").exists()
}


def sample(schema: Json, *, whole: bool) -> Any:
    """Return a valid value: with all fields, or with lists and the required ones only."""
    kind = "integer" if "x-kubernetes-int-or-string" in schema else schema.get("type", "object")
    if kind == "array":
        return [sample(schema["items"], whole=whole)]
    if kind == "object":
        fields = {
            name: sample(field, whole=whole)
            for name, field in schema.get("properties", {}).items()
            if whole or name in schema.get("required", ()) or field.get("type") == "array"
        }
        more = schema.get("additionalProperties")
        return fields | ({"a": sample(more, whole=whole)} if whole and more else {})
    texts = {"date-time": "2026-01-01T00:00:00Z"}
    text = texts.get(schema.get("format", ""), schema.get("enum", "x")[0])
    return {"string": text, "integer": 1, "number": 1.5, "boolean": True}[kind]


@pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: kind.resource)
def test_shapes_accept_what_definitions_of_kinds_allow(kind: kinds.Kind) -> None:
    definition = yaml.load(DEFINED[kind].read_text(), yaml.CSafeLoader)
    for version in definition["spec"]["versions"]:
        fields = version["schema"]["openAPIV3Schema"]["properties"]
        for whole in (True, False):
            item = {
                name: sample(fields[name], whole=whole)
                for name in fields.keys() & {"spec", "status"}
            }
            written = json.dumps({"metadata": METADATA} | item).encode()
            shape = shape_of(kind)
            assert isinstance(decode(written, shape), shape)


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (shape_of(kinds.LIMIT_RANGE), {"metadata": METADATA, "spec": {"limits": None}}),
        (shape_of(kinds.POD_METRICS), {"metadata": {"name": "a"}, "containers": None}),
        (
            shape_of(kinds.POD_METRICS),
            {"metadata": {"name": "a"}, "containers": [{"name": "x", "usage": None}]},
        ),
        (
            shape_of(kinds.CUSTOM_RESOURCE_DEFINITION),
            {"metadata": METADATA, "status": {"conditions": None}},
        ),
        (ApiResources, {"resources": None}),
    ],
)
def test_shapes_accept_null_for_lists_that_servers_always_write(shape: type, value: Json) -> None:
    assert decode(json.dumps(value).encode(), Whole(shape)) == value
