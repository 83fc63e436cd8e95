"""Limits of variable substitution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_sky.spec import substitute
from kubectl_sky.spec.document import Data
from kubectl_sky.spec.load import load
from kubectl_sky.spec.substitute import Filled

NAMES = st.sampled_from(["A", "B", "C"])
PARTS = st.one_of(NAMES.map("${}".format), NAMES.map("${{{}}}".format), st.text("x$ {}"))
TEXTS = st.lists(PARTS).map("".join)
DATA = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


def size(data: Data) -> int:
    if isinstance(data, dict):
        return sum(len(key) + size(value) for key, value in data.items())
    return sum(map(size, data)) if isinstance(data, list) else len(data)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(substitute, "MAX_TEXT", 200)
    monkeypatch.setattr(substitute, "MAX_ADDED", 500)


@given(values=st.dictionaries(NAMES, st.text("xyz", max_size=150)), data=DATA, secret=st.booleans())
def test_substitution_in_random_document_stays_within_limits(
    values: dict[str, str], data: Data, secret: bool
) -> None:
    written = {"secrets" if secret else "envs": values, "file_mounts": data}
    document = replace(load(b"run: x", "task.yaml")[0], data=written)
    filled = Filled(document)
    assert size(filled.document.data["file_mounts"]) <= size(data) + 500
    assert len(filled.problems) <= 1
    for problem in filled.problems:
        assert not any(text in problem.message for text in values.values() if len(text) > 3)
