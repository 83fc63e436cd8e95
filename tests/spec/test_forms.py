"""Equivalent forms of fields, and their limits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec.resource_fields import MAX_PORT, port_numbers, port_ranges
from kubectl_sky.spec.task import Resources, task_of
from kubectl_sky.spec.validate import validate
from tests.spec.documents import RUN, make_document, read


def first(**resources: Any) -> Resources:
    document = make_document(resources=resources)
    assert [found for found in validate(document) if found.severity == "error"] == []
    return task_of(document).resources


def test_accelerators_of_candidate_become_candidates() -> None:
    task = task_of(make_document(resources={"any_of": [{"accelerators": {"L4": 1, "T4": 1}}]}))
    names = [each.accelerator and each.accelerator.name for each in (task.resources, *task.choices)]
    assert names == ["L4", "T4"]


@pytest.mark.parametrize(
    ("cpus", "memory", "expected"),
    [(4, "2x", "8Gi"), ("4+", "2x", "8Gi"), ("500m", "1x", "512Mi"), (None, "4x", "8Gi")],
)
def test_memory_per_cpu_is_multiplied(cpus: Any, memory: str, expected: str) -> None:
    assert first(cpus=cpus, memory=memory).memory == expected


@pytest.mark.parametrize(("value", "expected"), [("4+", {"cpu"}), (4, set()), (None, set())])
def test_cpus_with_plus_have_no_limit(value: Any, expected: set[str]) -> None:
    assert first(cpus=value, memory=8).unlimited == expected


def test_memory_with_plus_has_no_limit() -> None:
    assert first(memory="16+").memory == "16Gi"
    assert first(cpus=4, memory="16+").unlimited == {"memory"}


def test_label_number_becomes_text() -> None:
    assert first(labels={"team": 7}).labels == {"team": "7"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, []),
        (8080, [(8080, 8080)]),
        ("8080-8090", [(8080, 8090)]),
        ("80, 443", [(80, 80), (443, 443)]),
        ([80, "90-91"], [(80, 80), (90, 91)]),
    ],
)
def test_ports_forms_are_parsed(written: Any, expected: list[tuple[int, int]]) -> None:
    assert port_ranges(written) == expected


_PORT = st.integers(1, MAX_PORT)
_RANGE = st.tuples(_PORT, _PORT).map(lambda pair: f"{min(pair)}-{max(pair)}")


@given(st.lists(_PORT | _RANGE | _PORT.map(lambda port: f"{port},{port}")))
def test_ports_are_sorted_without_duplicates(written: list[int | str]) -> None:
    expected = {port for first, last in port_ranges(written) for port in range(first, last + 1)}
    assert list(port_numbers(written)) == sorted(expected)


@given(st.lists(st.text(alphabet="0123456789-, x") | st.integers()) | st.text())
def test_ports_random_values_are_parsed_or_refused(written: Any) -> None:
    try:
        assert all(1 <= port <= MAX_PORT for port in port_numbers(written))
    except ValueError as error:
        assert "port" in str(error) or "range" in str(error)


def test_ports_many_ranges_are_fast() -> None:
    assert len(port_numbers(["1-65535"] * 20_000)) == MAX_PORT


def test_ports_of_candidate_are_added_to_resources() -> None:
    (document,) = read("resources: {ports: 80, any_of: [{cpus: 1}, {ports: [443, 80]}]}\n" + RUN)
    assert [one.ports for one in task_of(document).candidates] == [(80,), (80, 443)]


def test_anchor_field_is_ignored() -> None:
    (document,) = read("x-labels: &l {team: a}\nresources: {labels: *l}\n" + RUN)
    assert validate(document) == []
    assert task_of(document).resources.labels == {"team": "a"}


def test_header_with_empty_execution_is_valid() -> None:
    text = "name: p\nexecution:\n---\n" + RUN
    assert [found for found in validate(read(text)[0]) if found.severity == "error"] == []
