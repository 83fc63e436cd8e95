"""Sizes: exact, canonical, or a ValueError with a message."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec import quantity

CPUS = {
    4: "4",
    0.5: "500m",
    "4": "4",
    "4+": "4",
    "500m": "500m",
    "1000m": "1",
    "0.1": "100m",
    1.0: "1",
    "1e2": "100",
}
MEMORY = {
    8: "8Gi",
    "8": "8Gi",
    "8+": "8Gi",
    0.5: "512Mi",
    "2.5": "2560Mi",
    "16GB": "16Gi",
    "16gb": "16Gi",
    "16gb+": "16Gi",
    "16Gi": "16Gi",
    "512Mi": "512Mi",
    "512MB": "512Mi",
    "1024Mi": "1Gi",
    "4G": "4G",
    "500M": "500M",
    "1024G": "1024G",
    "1PB": "1Pi",
    "1Ei": "1Ei",
    "1k": "1k",
    1024: "1Ti",
}
STORAGE = {"10": "10Gi", "10Gi": "10Gi", "1Ti": "1Ti", "10GB": "10Gi", "100G": "100G"}


SIZES: list[tuple[Callable[[Any], str], dict[Any, str]]] = [
    (quantity.cpus, CPUS),
    (quantity.memory, MEMORY),
    (quantity.storage, STORAGE),
]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [(read, value, expected) for read, sizes in SIZES for value, expected in sizes.items()],
)
def test_size_is_normalized(read: Callable[[Any], str], value: Any, expected: str) -> None:
    assert read(value) == expected


BAD = [
    "",
    "0",
    "-1",
    "abc",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "9" * 50,
    "4 G",
    "4++",
    "1.2.3",
    "٤",
    "x4",
]


@pytest.mark.parametrize("value", [*BAD, "4Gi", "0.0001", 1e-5, True, float("nan"), "1e50"])
def test_cpus_invalid_value_is_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"CPUs|more than"):
        quantity.cpus(value)


@pytest.mark.parametrize(
    "value", [*BAD, "16g", "8m", "8xx", "0Gi", "2000000PB", float("inf"), False]
)
@pytest.mark.parametrize("read", [quantity.memory, quantity.storage])
def test_memory_and_storage_invalid_value_is_value_error(
    read: Callable[[Any], str], value: Any
) -> None:
    with pytest.raises(ValueError, match=r"GiB|more than|less than"):
        read(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1000m", "1"),
        ("1Gi", "1024Mi"),
        ("4G", "4000M"),
        ("1e3", "1k"),
        ("0.5", "500m"),
        ("1", "1.0"),
    ],
)
def test_quantities_of_same_value_are_equal(one: str, other: str) -> None:
    assert quantity.quantity(one) == quantity.quantity(other)


@pytest.mark.parametrize("text", ["", "Gi", "1GB", "x", "1 Gi", "--1", "nan"])
def test_quantity_invalid_text_is_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        quantity.quantity(text)


@given(st.text() | st.integers() | st.floats() | st.booleans())
def test_sizes_random_value_is_parsed_or_refused(value: Any) -> None:
    for read in (quantity.cpus, quantity.memory, quantity.storage):
        try:
            text = read(value)
        except ValueError as error:
            assert str(error)
        else:
            assert quantity.quantity(text) > 0


@given(st.decimals(min_value="0.001", max_value=1000, places=3))
def test_cpus_are_exact(count: Decimal) -> None:
    assert quantity.quantity(quantity.cpus(str(count))) == Fraction(count)


@given(st.integers(1, 10**6), st.sampled_from(["Ki", "Mi", "Gi", "k", "M", "G"]))
def test_memory_is_exact_and_idempotent(count: int, unit: str) -> None:
    read = quantity.memory(f"{count}{unit}")
    assert quantity.quantity(read) == quantity.quantity(f"{count}{unit}")
    assert quantity.memory(read) == read
