"""Workloads that a Kueue queue could never admit, by its flavors and cohort."""

from typing import Any

import pytest

from kubectl_sky.plan.queue_quota import exceeded
from kubectl_sky.plan.resource_quota import Pods


def make_pods(cpu: str, count: int = 1) -> Pods:
    return Pods({"containers": [{"resources": {"requests": {"cpu": cpu}}}]}, count)


def make_queue(*quotas: dict[str, Any], **spec: Any) -> dict[str, Any]:
    flavors = [
        {"name": f"flavor-{index}", "resources": [{"name": "cpu"} | quota]}
        for index, quota in enumerate(quotas)
    ]
    return {"spec": {"resourceGroups": [{"flavors": flavors}]} | spec}


TWO = {"nominalQuota": 2}
LIMITED = TWO | {"borrowingLimit": "500m"}
TOO_MUCH = ["cpu: requested 3, at most 2"]


@pytest.mark.parametrize(
    ("pods", "queue", "messages"),
    [
        ([make_pods("3")], make_queue(TWO), TOO_MUCH),
        ([make_pods("1", 3)], make_queue(TWO), TOO_MUCH),
        ([make_pods("1"), make_pods("2")], make_queue(TWO), TOO_MUCH),
        ([make_pods("2")], make_queue(TWO), []),
        ([make_pods("3")], make_queue(TWO, TWO), TOO_MUCH),  # one flavor for all pods of a template
        ([make_pods("1"), make_pods("2")], make_queue(TWO, TWO), []),
        ([make_pods("3")], make_queue(TWO, cohort="all"), []),
        ([make_pods("3")], make_queue(TWO, {}), []),
        ([make_pods("3")], make_queue(LIMITED), TOO_MUCH),
        (
            [make_pods("3")],
            make_queue(LIMITED, cohortName="all"),
            ["cpu: requested 3, at most 2500m"],
        ),
        ([make_pods("2500m")], make_queue(LIMITED, cohortName="all"), []),
        ([make_pods("3")], {}, []),
        ([], make_queue(TWO), []),
    ],
)
def test_exceeded_names_what_queue_can_never_admit(
    pods: list[Pods], queue: dict[str, Any], messages: list[str]
) -> None:
    assert list(exceeded(pods, queue, ())) == messages
