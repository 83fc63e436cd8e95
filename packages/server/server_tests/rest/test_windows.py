"""Which rows a window shows."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubectl_sky_server.rest.windows import Key, Row, Window, find


def row(status: str = "running", hours_ago: int = 0, **values: Any) -> Row:
    changed = datetime.now(UTC) - timedelta(hours=hours_ago)
    labels = values.pop("labels", {})
    text = values.pop("text", "train alice")
    return Row(status, f"{changed:%Y-%m-%dT%H:%M:%SZ}", text, labels, {"status": status, **values})


def names(window: Window, rows: Sequence[Row]) -> str:
    """Return the numbers of the rows that are found; the newest is 0."""
    keyed: list[tuple[Key, Row]] = [(("task", "team", f"{at}"), it) for at, it in enumerate(rows)]
    return " ".join(key[2] for key in find(window, keyed).keys)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "0 1"),
        ("ALICE", "0"),
        ("train", "0 1"),
        (" train,bob ", "1"),
        ("team=vision", "0"),
        ("team==vision", "0"),
        ("team!=vision", "1"),
        ("team=vis", ""),
    ],
)
def test_filter_finds_what_has_each_word_and_label(text: str, found: str) -> None:
    rows = [row(labels={"team": "vision"}), row(text="train bob")]
    assert names(Window(rows=9, filter=text), rows) == found


def test_window_has_the_first_rows_of_a_status_and_counts_all_that_match() -> None:
    keyed: list[tuple[Key, Row]] = [
        (("task", "team", f"{at}"), row(status))
        for at, status in enumerate(["failed", "running", "failed", "failed"])
    ]
    found = find(Window(rows=2, status="failed"), keyed)
    assert [key[2] for key in found.keys] == ["0", "2"]
    assert found.counts == {"failed": 3, "running": 1}


@pytest.mark.parametrize(
    ("sort", "found"),
    [("age", "0 1 2 3"), ("-age", "3 2 1 0"), ("nodes", "1 3 0 2"), ("-nodes", "0 2 1 3")],
)
def test_equal_values_are_sorted_by_age_in_both_directions(sort: str, found: str) -> None:
    rows = [row(nodes=2), row(nodes=1), row(nodes=2), row(nodes=1)]
    assert names(Window(rows=9, sort=sort), rows) == found
    assert names(Window(rows=3, sort=sort), rows) == found[:5]


def test_tasks_that_have_not_changed_for_long_are_left_out() -> None:
    rows = [row(hours_ago=0), row(hours_ago=30)]
    assert names(Window(rows=9, since=24), rows) == "0"
    assert names(Window(rows=9, since=48), rows) == "0 1"
