"""SkyPilot's sizes, where a task names none and the settings ask for them."""

import pytest

from kubectl_sky.plan import defaults
from kubectl_sky.plan.placement import Device, Placement
from kubectl_sky.settings import Settings
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
    assert bool(defaults.notes(placement, SKYPILOT)) == bool(expected)
    assert defaults.notes(placement, Settings()) == ()
