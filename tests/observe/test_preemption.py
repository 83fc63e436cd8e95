"""Whom a queue of Kueue preempts for a new workload, and what is said if that is not known."""

from collections.abc import Sequence
from typing import Any

import pytest

from kubectl_sky.observe.admission import Outlook, QueueState, admit_all
from kubectl_sky.plan.quota import Pods
from kubectl_sky.words.pod_objects import PodSpec
from kubectl_sky.words.scheduled_objects import KueueQueue, QueuedWorkload, ResourceFlavor
from tests.reading import read_as, read_list

Json = dict[str, Any]
LOWER = {"withinClusterQueue": "LowerPriority"}
RECLAIM = {"reclaimWithinCohort": "Any"}


def make_holder(
    name: str, cpu: int, priority: int = 0, hour: int = 1, queue: str = "own", flavor: str = "a"
) -> Json:
    """A workload that has held CPUs of a queue since some hour."""
    time = f"2026-01-01T{hour:02}:00:00Z"
    usage = {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": str(cpu)}}
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": time}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}
    return {
        "metadata": {"name": f"job-{name}", "namespace": "team", "ownerReferences": [owner]},
        "spec": {"queueName": queue, "priority": priority},
        "status": {
            "conditions": [reserved],
            "admission": {"clusterQueue": queue, "podSetAssignments": [usage]},
        },
    }


def make_queue(name: str, holders: Sequence[Json], quota: int = 4, **spec: Any) -> KueueQueue:
    flavors = spec.pop("flavors", ["a"])
    used: dict[str, int] = dict.fromkeys(flavors, 0)
    for item in holders:
        admission = item["status"]["admission"]
        (part,) = admission["podSetAssignments"]
        if admission["clusterQueue"] == name:
            used[part["flavors"]["cpu"]] += int(part["resourceUsage"]["cpu"])
    quotas = [{"name": "cpu", "nominalQuota": quota}]
    groups = [{"flavors": [{"name": flavor, "resources": quotas} for flavor in flavors]}]
    reserved = [
        {"name": flavor, "resources": [{"name": "cpu", "total": str(total)}]}
        for flavor, total in used.items()
    ]
    return read_as(
        KueueQueue,
        {
            "metadata": {"name": name},
            "spec": {"resourceGroups": groups, "namespaceSelector": {}, **spec},
            "status": {"flavorsReservation": reserved},
        },
    )


def preempt(
    cpu: int, priority: int, holders: list[Json], queues: Sequence[KueueQueue], pods: int = 1
) -> tuple[Outlook, list[str]]:
    """Return whether the first queue admits workloads, and the names of those that go for them."""
    flavors = {name: read_as(ResourceFlavor, {"metadata": {"name": name}}) for name in "ab"}
    state = QueueState(queues[0], queues, (), flavors, read_list(QueuedWorkload, holders))
    requests = {"requests": {"cpu": str(cpu)}}
    spec = read_as(PodSpec, {"containers": [{"name": "main", "resources": requests}]})
    found = admit_all([[Pods(spec, 1)]] * pods, state, (), priority)
    return found.outlook, sorted(victim.owner.name for victim in found.victims)


def test_workloads_of_lower_priority_go_the_newest_first() -> None:
    holders = [
        make_holder("high", 1, priority=9, hour=5),
        make_holder("old", 1, hour=1),
        make_holder("new", 1, hour=3),
        make_holder("low", 1, priority=-1, hour=1),
    ]
    own = make_queue("own", holders, preemption=LOWER)

    assert preempt(1, 5, holders, [own]) == (Outlook.NOW, ["low"])
    assert preempt(2, 5, holders, [own]) == (Outlook.NOW, ["low", "new"])
    assert preempt(3, 5, holders, [own]) == (Outlook.NOW, ["low", "new", "old"])
    assert preempt(4, 5, holders, [own]) == (Outlook.LATER, [])
    assert preempt(1, -1, holders, [own]) == (Outlook.LATER, []), "of equal priority"


def test_workloads_that_need_not_go_stay() -> None:
    holders = [make_holder("small", 1, hour=2), make_holder("large", 3, hour=1)]

    own = make_queue("own", holders, preemption=LOWER)

    assert preempt(3, 5, holders, [own]) == (Outlook.NOW, ["large"])


def test_each_workload_of_a_task_preempts_others() -> None:
    holders = [make_holder(name, 2, hour=hour) for hour, name in enumerate(("one", "two"), 1)]

    own = make_queue("own", holders, preemption=LOWER)

    assert preempt(2, 5, holders, [own], pods=2) == (Outlook.NOW, ["one", "two"])


@pytest.mark.parametrize("preemption", [{}, {"withinClusterQueue": "Never"}])
def test_queue_without_preemption_waits(preemption: Json) -> None:
    holders = [make_holder("low", 4, priority=-1)]

    own = make_queue("own", holders, preemption=preemption)

    assert preempt(1, 5, holders, [own]) == (Outlook.LATER, [])


def test_another_flavor_is_tried_before_preemption_unless_the_queue_says_otherwise() -> None:
    holders = [make_holder("low", 4)]
    stops: Json = {"flavorFungibility": {"whenCanPreempt": "MayStopSearch"}}

    first = make_queue("own", holders, preemption=LOWER, flavors=["a", "b"])
    assert preempt(2, 5, holders, [first]) == (Outlook.NOW, [])
    first = make_queue("own", holders, preemption=LOWER, flavors=["a", "b"], **stops)
    assert preempt(2, 5, holders, [first]) == (Outlook.NOW, ["low"])


def test_own_quota_is_reclaimed_from_queues_that_borrow_it() -> None:
    holders = [
        make_holder("first", 4, priority=9, hour=1, queue="other"),
        make_holder("second", 2, priority=9, hour=2, queue="other"),
        make_holder("third", 2, priority=9, hour=3, queue="other"),
    ]
    other = make_queue("other", holders, cohortName="all")

    own = make_queue("own", holders, cohortName="all", preemption=RECLAIM)
    assert preempt(2, 0, holders, [own, other]) == (Outlook.NOW, ["third"])
    assert preempt(4, 0, holders, [own, other]) == (Outlook.NOW, ["second", "third"])
    assert preempt(5, 0, holders, [own, other]) == (Outlook.LATER, []), "it would borrow"

    lower = make_queue(
        "own", holders, cohortName="all", preemption={"reclaimWithinCohort": "LowerPriority"}
    )
    assert preempt(2, 0, holders, [lower, other]) == (Outlook.LATER, [])


def test_queue_that_borrows_preempts_others_only_if_it_says_so() -> None:
    holders = [make_holder("low", 8, priority=-5, queue="other")]
    other = make_queue("other", holders, cohortName="all")
    policy = {"reclaimWithinCohort": "LowerPriority"}
    borrows = {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -1}}

    own = make_queue("own", holders, cohortName="all", preemption=policy)
    assert preempt(5, 0, holders, [own, other]) == (Outlook.LATER, [])
    own = make_queue("own", holders, cohortName="all", preemption={**policy, **borrows})
    assert preempt(5, 0, holders, [own, other]) == (Outlook.NOW, ["low"])
