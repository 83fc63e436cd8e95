"""Quotas that can never give what all nodes need together."""

from typing import Any

import pytest

from kubectl_sky.errors import ClusterError
from kubectl_sky.plan import resource_quota
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Accelerator, Resources, Task
from tests.plan.test_resolve import make_plan


def quotas(**more: Any) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "few"}, "spec": more}]


def task(nodes: int = 4, **more: Any) -> Task:
    asked = Resources(cpus="1500m", memory="1Gi", accelerator=Accelerator("A100", 2))
    return Task(num_nodes=nodes, run="x", resources=asked, **more)


@pytest.mark.parametrize(
    ("hard", "says"),
    [
        ({"cpu": "4"}, "4 nodes need cpu 6 together, and quota few never allows more than 4"),
        ({"limits.cpu": "5999m"}, "need limits.cpu 6 together"),
        ({"requests.memory": "4095Mi"}, "need requests.memory"),
        ({"requests.nvidia.com/gpu": 7}, "need requests.nvidia.com/gpu 8 together"),
        ({"pods": "3"}, "need pods 4 together"),
    ],
)
def test_more_than_there_can_ever_be(hard: dict[str, Any], says: str) -> None:
    hard = {name: str(limit) for name, limit in hard.items()}
    with pytest.raises(ClusterError) as caught:
        resource_quota.check(make_plan(task()), quotas(hard=hard))
    assert says in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "found",
    [
        [],
        quotas(),
        quotas(hard={"cpu": "6", "memory": "4Gi", "pods": "4", "services": "0"}),
        quotas(hard={"cpu": "1"}, scopes=["BestEffort"]),
        quotas(hard={"cpu": "1"}, scopeSelector={"matchExpressions": []}),
    ],
)
def test_what_there_may_be(found: list[dict[str, Any]]) -> None:
    resource_quota.check(make_plan(task()), found)


def test_what_is_told_otherwise() -> None:
    full = quotas(hard={"cpu": "1"})
    resource_quota.check(make_plan(task(nodes=1)), full)
    resource_quota.check(make_plan(task(kubernetes=Kubernetes(queue="gold"))), full)
    pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": "1m"}}}]}}
    resource_quota.check(make_plan(task(kubernetes=Kubernetes(pod=pod))), full)
