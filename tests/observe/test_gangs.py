"""What a PodGroup of Volcano says, told to people."""

from typing import Any

import pytest

from kubectl_sky.observe.queues import waiting_group
from tests.builders import make_pod_group

_FULL = "queue resource quota insufficient: insufficient nvidia.com/gpu"


@pytest.mark.parametrize(
    ("found", "reason", "text"),
    [
        (make_pod_group(), "Unseen", "PodGroup train-x: no Volcano scheduler has handled it"),
        (
            make_pod_group("Pending"),
            "Queued",
            "PodGroup train-x is Pending in Volcano's queue gold",
        ),
        (
            make_pod_group("Pending", "old", _FULL),
            "Queued",
            f"PodGroup train-x is Pending in Volcano's queue gold: {_FULL}",
        ),
        (
            make_pod_group("Inqueue", "3/3 tasks in gang unschedulable"),
            "Unschedulable",
            "PodGroup train-x is Inqueue in Volcano's queue gold: 3/3 tasks in gang unschedulable",
        ),
    ],
)
def test_why_it_waits(found: dict[str, Any], reason: str, text: str) -> None:
    said = waiting_group(found)
    assert said and (said.reason, str(said)) == (reason, text)


@pytest.mark.parametrize("phase", ["Running", "Completed", "SomethingNew"])
def test_it_does_not_wait(phase: str) -> None:
    assert waiting_group(make_pod_group(phase, "NotEnoughResources of before")) is None


def test_the_condition_s_reason_where_it_says_no_more() -> None:
    said = waiting_group(make_pod_group("Inqueue", ""))
    assert said and str(said).endswith(": NotEnoughResources")
