"""SkyPilot's sizes, where a task names none and the settings ask for them."""

import pytest

from kubectl_sky.plan import defaults
from kubectl_sky.plan.placement import Device, Placement
from kubectl_sky.settings import SKYPILOT_GPU_IMAGE, SKYPILOT_IMAGE, Settings
from kubectl_sky.spec.task import Resources

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
def test_sizes(resources: Resources, gpus: int, expected: dict[str, str]) -> None:
    placement = Placement(resources, Device("nvidia.com/gpu", gpus) if gpus else None)
    assert defaults.sizes(placement, SKYPILOT) == expected
    assert defaults.sizes(placement, Settings()) == {}
    sizes = [note for note in defaults.notes(placement, SKYPILOT) if "requests" in note]
    assert bool(sizes) == bool(expected)
    assert defaults.notes(placement, Settings()) == ()


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
def test_default_image_is_that_of_the_settings(
    placement: Placement, settings: Settings, expected: str
) -> None:
    assert defaults.image(placement, settings) == expected
    notes = [note for note in defaults.notes(placement, settings) if "image" in note]
    assert notes == ([] if settings == Settings() else [f"settings: the image is {expected}"])
