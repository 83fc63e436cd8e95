"""Edits of YAML texts keep comments, and change exactly one value or nothing."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec import edit

TEXT = """\
# my settings
image: python:3.12   # pinned

ports:               # how to reach it
  expose: nodeport   # for now
  annotations: {a: b}
host_paths:
- /mnt/a
- /mnt/b
# the end
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("image", "busybox", "python:3.12   # pinned", "busybox   # pinned"),
        ("ports.expose", "podip", "nodeport   # for", "podip   # for"),
        ("ports.annotations.c", "d", "{a: b}", "{a: b, c: d}"),
        ("host_paths", ["/x"], "\n- /mnt/a\n- /mnt/b\n", " [/x]\n"),
        ("queue", "team", "# the end\n", "# the end\nqueue: team\n"),
        ("stores.s3.secret", "k", "end\n", "end\nstores: {s3: {secret: k}}\n"),
        ("ports.more", 1, "  expose", "  more: 1\n  expose"),
        ("image", "a: b # c", "python:3.12 ", "'a: b # c' "),
    ],
)
def test_put_changes_value_only(path: str, value: Any, old: str, new: str) -> None:
    assert edit.put(TEXT, path.split("."), value) == TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("image", "image: python:3.12   # pinned\n", ""),
        ("ports.expose", "  expose: nodeport   # for now\n", ""),
        ("ports.annotations.a", "  annotations: {a: b}\n", ""),
        ("host_paths", "host_paths:\n- /mnt/a\n- /mnt/b\n", ""),
    ],
)
def test_remove_deletes_lines_of_value(path: str, old: str, new: str) -> None:
    assert edit.remove(TEXT, path.split(".")) == TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("ports:   # mine\n  expose: a  # why\n  annotations: {a: b}\n", "ports", {"expose": "b"}),
        ("a: &x 1\nb: *x\n", "a", 2),
        ("{a: 1}\n", "b", 2),
        ("a: 1\n...\n", "b", 2),
        ("12: a\n", "12", "b"),
    ],
)
def test_put_that_would_lose_something_is_refused(text: str, path: str, value: Any) -> None:
    with pytest.raises(
        edit.EditRefused, match=r"line \d+ cannot be edited without losing something"
    ):
        edit.put(text, path.split("."), value)


NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)


@given(
    data=st.dictionaries(NAMES, DATA, max_size=3),
    path=st.lists(NAMES, min_size=1, max_size=3),
    value=DATA,
    flow=st.sampled_from([None, False, True]),
    comment=st.booleans(),
)
def test_put_of_any_value_is_exact_or_refused(
    data: dict[str, Any], path: list[str], value: Any, flow: bool | None, comment: bool
) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow) if data else ""
    text = "# first\n" * comment + text + "# last\n" * comment
    try:
        edited = edit.put(text, path, value)
    except edit.EditRefused:
        return
    changed = yaml.safe_load(edited)
    for step in path:
        changed = changed[step]
    assert changed == value
    assert edited.count("# first\n") == edited.count("# last\n") == comment
