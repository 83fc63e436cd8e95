"""Requests and limits of nodes: the sizes of the task, and the defaults of the settings."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.plan.placement import Device, Placement
from kubectl_sky.plan.resources import (
    _default_requests,
    default_image,
    default_notes,
    node_limits,
    node_requests,
    total_requests,
)
from kubectl_sky.spec import quantity
from kubectl_sky.spec.task import Accelerator, Resources, Task
from kubectl_sky.words.settings import SKYPILOT_GPU_IMAGE, SKYPILOT_IMAGE, Settings
from tests.builders import make_plan

ASKED = Resources("1500m", "3Gi", disk="512Gi")


def limits(factor: Fraction | int | None, settings: Settings | None = None) -> dict[str, str]:
    placement = Placement(ASKED, Device("nvidia.com/gpu", 2))
    requested = node_requests(placement, settings or Settings())
    fraction = None if factor is None else Fraction(factor)
    return node_limits(placement, requested, fraction)


def test_limits_are_multiple_of_requests() -> None:
    gpus = {"nvidia.com/gpu": "2"}
    assert limits(None) == {"cpu": "1500m", "memory": "3Gi"} | gpus
    assert limits(0) == gpus
    both = {"cpu": "1500m", "memory": "3Gi", "ephemeral-storage": "512Gi"}
    assert limits(1) == both | gpus
    assert limits(2) == {"cpu": "3", "memory": "6Gi", "ephemeral-storage": "1Ti"} | gpus
    assert limits(Fraction("1.1"))["cpu"] == "1650m"


def test_limits_of_size_with_plus_are_not_set() -> None:
    resources = Resources("4", "16Gi", unlimited=frozenset({"cpu"}))
    requested = node_requests(Placement(resources), Settings())
    assert requested == {"cpu": "4", "memory": "16Gi"}
    assert node_limits(Placement(resources), requested, None) == {"memory": "16Gi"}
    assert node_limits(Placement(resources), requested, Fraction(2))["cpu"] == "8"


def test_limits_of_default_sizes_are_set_only_on_request() -> None:
    placement = Placement(Resources())
    requested = node_requests(placement, Settings(defaults="skypilot"))
    assert requested == {"cpu": "2", "memory": "2Gi"}
    assert node_limits(placement, requested, None) == {}
    assert node_limits(placement, requested, Fraction(3)) == {"cpu": "6", "memory": "6Gi"}


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
def test_quantity_multiple_is_rounded_up(
    size: str, factor: str, step: Fraction, expected: str
) -> None:
    assert quantity.multiple(size, Fraction(factor), step) == expected


@given(st.integers(1, 10**6), st.decimals(1, 1000, places=6))
def test_quantity_multiple_is_exact(thousandths: int, factor: object) -> None:
    exact = Fraction(thousandths, 1000) * Fraction(str(factor))
    step = Fraction(1, 1000)
    found = quantity.quantity(quantity.multiple(f"{thousandths}m", Fraction(str(factor)), step))
    assert exact <= found < exact + step


SKYPILOT = Settings(defaults="skypilot")


@pytest.mark.parametrize(
    ("resources", "gpus", "expected"),
    [
        (Resources(), 0, {"cpu": "2", "memory": "2Gi"}),
        (Resources(), 1, {"cpu": "4", "memory": "16Gi"}),
        (Resources(), 8, {"cpu": "32", "memory": "128Gi"}),
        (Resources("8"), 0, {"memory": "8Gi"}),
        (Resources("500m"), 0, {"memory": "512Mi"}),
        (Resources("8"), 1, {"memory": "32Gi"}),
        (Resources(None, "64Gi"), 0, {"cpu": "2"}),
        (Resources("1", "1Gi"), 4, {}),
    ],
)
def test_default_sizes_follow_skypilot_setting(
    resources: Resources, gpus: int, expected: dict[str, str]
) -> None:
    device = Device("nvidia.com/gpu", gpus) if gpus else None
    placement = Placement(resources, device)
    assert _default_requests(placement, SKYPILOT) == expected
    assert _default_requests(placement, Settings()) == {}
    sizes = [note for note in default_notes(placement, SKYPILOT) if "requests" in note]
    assert bool(sizes) == bool(expected)
    assert default_notes(placement, Settings()) == ()


GPU = Placement(Resources(), Device("nvidia.com/gpu", 1))


@pytest.mark.parametrize(
    ("placement", "settings", "expected"),
    [
        (Placement(Resources()), Settings(), "python:3.13-slim"),
        (Placement(Resources()), SKYPILOT, SKYPILOT_IMAGE),
        (GPU, SKYPILOT, SKYPILOT_GPU_IMAGE),
        (GPU, Settings(image="base:1", defaults="skypilot"), "base:1"),
    ],
)
def test_default_image_follows_settings(
    placement: Placement, settings: Settings, expected: str
) -> None:
    assert default_image(placement, settings) == expected
    notes = [note for note in default_notes(placement, settings) if "image" in note]
    assert notes == ([] if settings == Settings() else [f"settings: the image is {expected}"])


def test_total_requests_sum_all_nodes() -> None:
    asked = Resources(cpus="1500m", memory="1Gi", accelerator=Accelerator("A100", 2))
    plan = make_plan(Task(num_nodes=4, run="x", resources=asked))
    assert total_requests(plan) == {"cpu": "6", "memory": "4Gi", "nvidia.com/gpu": "8"}
