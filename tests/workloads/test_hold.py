"""Objects that are held, by us or by a queue."""

from dataclasses import replace

import pytest

from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads import hold, registry
from tests.plan.test_resolve import make_plan


def queued(queue: str | None, suspended: bool) -> Plan:
    plan = make_plan(Task(run="x", kubernetes=Kubernetes(queue=queue)))
    return replace(plan, suspended=suspended)


@pytest.mark.parametrize("name", ["jobs", "indexed"])
def test_a_queue_does_not_know_a_pipeline_s_order(name: str) -> None:
    backend = registry.named(name)
    assert hold.unfit(backend, queued("q", suspended=False)) == ""
    assert hold.unfit(backend, queued(None, suspended=True)) == ""
    assert "its queue would let it begin" in hold.unfit(backend, queued("q", suspended=True))


@pytest.mark.parametrize("live", [{"suspend": False, "x": 1}, {"x": 1}])
def test_what_was_released_stays_so(live: dict[str, object]) -> None:
    """Some say `false`, and some nothing."""
    wanted = {"metadata": {}, "spec": {"suspend": True, "parallelism": 2}}
    found = hold.copied(wanted, {"metadata": {}, "spec": live})
    suspend = {"suspend": False} if "suspend" in live else {}
    assert found["spec"] == {"parallelism": 2} | suspend
    assert wanted["spec"] == {"suspend": True, "parallelism": 2}
    held = {"metadata": {}, "spec": {"suspend": True}}
    assert hold.copied(wanted, held) == wanted
