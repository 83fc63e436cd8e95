"""Objects that are held, by us or by a queue."""

from dataclasses import replace

import pytest

from kubectl_sky import names
from kubectl_sky.plan.pipeline import member_of, without_queue_until_resumed
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads import hold, registry
from tests.plan.test_resolve import make_plan


def queued(queue: str | None, suspended: bool, backend: str | None = None) -> Plan:
    plan = make_plan(Task(run="x", kubernetes=Kubernetes(queue=queue), backend=backend))
    return replace(plan, suspended=suspended)


@pytest.mark.parametrize("name", ["jobs", "indexed", "jobset", "mpijob", "appwrapper"])
def test_a_later_stage_gets_into_its_queue_when_it_is_released(name: str) -> None:
    """The queue does not know a pipeline's order."""
    backend = registry.named(name)
    plan = without_queue_until_resumed(queued("gold", suspended=True, backend=name))
    assert hold.unfit(backend, plan) == ""
    for manifest in manifests.render(plan).workload:
        assert hold.held(manifest.object)
        assert names.QUEUE not in manifest.object["metadata"]["labels"]
        member = member_of({**manifest.object["metadata"], "labels": {names.PIPELINE: "p"}})
        assert member
        assert hold.released(backend, member.queueing) == {
            "metadata": {"labels": {names.QUEUE: "gold"}}
        }


def test_the_first_stage_waits_in_its_queue_at_once() -> None:
    for plan in (queued("gold", suspended=False), queued(None, suspended=True)):
        assert without_queue_until_resumed(plan) is plan


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
