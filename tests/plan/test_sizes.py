"""Limits as a multiple of requests, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.plan import sizes
from kubectl_sky.plan.placement import Device, Placement
from kubectl_sky.settings import Settings
from kubectl_sky.spec import quantity
from kubectl_sky.spec.task import Resources

ASKED = Resources("1500m", "3Gi", disk="512Gi")


def limits(factor: Fraction | int | None, settings: Settings | None = None) -> dict[str, str]:
    placement = Placement(ASKED, Device("nvidia.com/gpu", 2))
    requested = sizes.requests(placement, settings or Settings())
    return sizes.limits(placement, requested, None if factor is None else Fraction(factor))


def test_limits() -> None:
    gpus = {"nvidia.com/gpu": "2"}
    assert limits(None) == {"cpu": "1500m", "memory": "3Gi"} | gpus
    assert limits(0) == gpus
    both = {"cpu": "1500m", "memory": "3Gi", "ephemeral-storage": "512Gi"}
    assert limits(1) == both | gpus
    assert limits(2) == {"cpu": "3", "memory": "6Gi", "ephemeral-storage": "1Ti"} | gpus
    assert limits(Fraction("1.1"))["cpu"] == "1650m"


def test_limits_of_sizes_with_a_plus_are_not_set() -> None:
    resources = Resources("4", "16Gi", unlimited=frozenset({"cpu"}))
    requested = sizes.requests(Placement(resources), Settings())
    assert requested == {"cpu": "4", "memory": "16Gi"}
    assert sizes.limits(Placement(resources), requested, None) == {"memory": "16Gi"}
    assert sizes.limits(Placement(resources), requested, Fraction(2))["cpu"] == "8"


def test_what_the_settings_request_is_limited_only_when_asked() -> None:
    placement = Placement(Resources())
    requested = sizes.requests(placement, Settings(defaults="skypilot"))
    assert requested == {"cpu": "2", "memory": "2Gi"}
    assert sizes.limits(placement, requested, None) == {}
    assert sizes.limits(placement, requested, Fraction(3)) == {"cpu": "6", "memory": "6Gi"}


@pytest.mark.parametrize(
    ("size", "factor", "step", "expected"),
    [
        ("1m", "1.1", Fraction(1, 1000), "2m"),
        ("3", "0.3333", Fraction(1, 1000), "1"),
        ("1Gi", "1.5", Fraction(1), "1536Mi"),
        ("1G", "1.5", Fraction(1), "1500M"),
        ("1", "1.5", Fraction(1), "2"),
    ],
)
def test_rounding_is_up(size: str, factor: str, step: Fraction, expected: str) -> None:
    assert quantity.multiple(size, Fraction(factor), step) == expected


@given(st.integers(1, 10**6), st.decimals(1, 1000, places=6))
def test_exact(thousandths: int, factor: object) -> None:
    exact = Fraction(thousandths, 1000) * Fraction(str(factor))
    step = Fraction(1, 1000)
    found = quantity.quantity(quantity.multiple(f"{thousandths}m", Fraction(str(factor)), step))
    assert exact <= found < exact + step
