"""Partial decoding of lists gives the same values as full decoding."""

import json
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.cluster.encoding import decode

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=5,
)


class Inner(TypedDict, total=False):
    kept: Any


class Shape(TypedDict, total=False):
    kept: Any
    inner: Inner


def answer(items: object) -> bytes:
    return json.dumps({"kind": "List", "metadata": {"continue": "x"}, "items": items}).encode()


@given(kept=VALUES, other=VALUES, name=st.text().filter(lambda name: name not in ("kept", "inner")))
def test_decode_with_shape_reads_only_its_fields(kept: object, other: object, name: str) -> None:
    item = {name: other, "inner": {name: other, "kept": kept}, "kept": kept, "more": other}
    whole = decode(answer([item, {}]), Shape)
    assert whole["items"] == [{"inner": {"kept": kept}, "kept": kept}, {}]
    assert whole["metadata"] == {"continue": "x"}


@given(VALUES)
def test_decode_without_shape_reads_all_fields(value: object) -> None:
    assert decode(answer([value]))["items"] == [value]


@pytest.mark.parametrize("shape", [None, Shape])
def test_decode_null_items_are_kept(shape: type | None) -> None:
    assert decode(answer(None), shape)["items"] is None


@given(st.binary(min_size=1) | st.integers(1, 60).map(lambda size: answer([{"a": "é"}])[:size]))
def test_decode_invalid_list_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data, Shape)


def test_decode_deeply_nested_json_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(b'{"metadata": ' + b"[" * 200_000)
    with pytest.raises(ValueError, match=r"."):
        decode(b'{"metadata": {}, "items": [{"kept": ' + b"[" * 200_000, Shape)
