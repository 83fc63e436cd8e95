"""Pending workloads of a queue, in the order of Kueue and with their reasons."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_sky.observe import queues
from kubectl_sky.observe.queues import Share, waiting_group
from kubectl_sky.words.documents import as_json
from kubectl_sky.words.scheduled_objects import KueueQueue, PodGroup, QueuedWorkload
from tests.builders import condition, make_pod_group
from tests.reading import read_as, read_list

NOW = datetime(2026, 1, 1, 6, tzinfo=UTC)
PENDING = condition("QuotaReserved", "Pending") | {"status": "False", "message": "no room"}


def make_workload(name: str, at: str = "10", priority: int = 0, **more: Any) -> dict[str, Any]:
    metadata = {
        "name": f"job-{name}",
        "creationTimestamp": f"2026-01-01T00:00:{at}Z",
        "ownerReferences": [{"kind": "Job", "name": name, "uid": name}],
    }
    spec = {"queueName": "gold", "priority": priority}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [PENDING]}} | more


def owners(*workloads: dict[str, Any]) -> list[str]:
    return [one.workload for one in queues.waiting(read_list(QueuedWorkload, workloads))]


def test_queue_order_is_by_priority_then_age() -> None:
    found = owners(
        make_workload("late", "30"), make_workload("early", "20"), make_workload("urgent", "40", 9)
    )
    assert found == ["Job/urgent", "Job/early", "Job/late"]


def test_queue_position_has_text_and_json() -> None:
    found = queues.waiting(
        [
            read_as(QueuedWorkload, make_workload("a")),
            read_as(QueuedWorkload, make_workload("b", "11")),
        ]
    )
    place = queues.of_object(found, "Job", "b")
    assert str(place) == "second of 2 in the queue gold: no room"
    assert queues.of_object(found, "AppWrapper", "b") is None
    assert place is not None
    assert as_json(place.in_queue) == {
        "workload": "Job/b",
        "position": 2,
        "priority": 0,
        "since": "2026-01-01T00:00:11Z",
        "reason": "no room",
    }


@pytest.mark.parametrize("done", ["QuotaReserved", "Admitted", "Finished"])
def test_queue_admitted_workload_is_not_waiting(done: str) -> None:
    there = make_workload("a", status={"conditions": [condition(done)]})
    assert owners(there, make_workload("b")) == ["Job/b"]


def test_queue_inactive_workload_is_not_waiting() -> None:
    assert owners(make_workload("a") | {"spec": {"queueName": "gold", "active": False}}) == []


def test_queue_workload_evicted_by_timeout_is_requeued_last() -> None:
    evicted = condition("Evicted", "PodsReadyTimeout")
    evicted["lastTransitionTime"] = "2026-01-01T00:00:59Z"
    again = make_workload("a", "10", status={"conditions": [PENDING, evicted]})
    assert owners(again, make_workload("b", "20")) == ["Job/b", "Job/a"]


def taken(cpu: str) -> list[dict[str, Any]]:
    return [{"name": "plain", "resources": [{"name": "cpu", "total": cpu}]}]


LOCAL = {
    "metadata": {"name": "gold", "namespace": "team-a"},
    "spec": {"clusterQueue": "all"},
    "status": {
        "admittedWorkloads": 1,
        "pendingWorkloads": 2,
        "flavorsReservation": taken("300m"),
        "conditions": [{"type": "Active", "status": "True", "message": "Can submit"}],
    },
}
ALL: dict[str, Any] = {
    "metadata": {"name": "all"},
    "spec": {
        "resourceGroups": [
            {"flavors": [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}
        ]
    },
    "status": {"pendingWorkloads": 5, "flavorsReservation": taken("3")},
}


def test_queue_status_has_counts_and_shares() -> None:
    (found,) = queues.queues(
        [read_as(KueueQueue, LOCAL)],
        {"all": read_as(KueueQueue, ALL)},
        [
            read_as(QueuedWorkload, make_workload("a")),
            read_as(QueuedWorkload, make_workload("b", "11")),
        ],
        NOW,
    )
    assert (found.admitted, found.pending, found.pending_in_cluster_queue, found.stopped) == (
        1,
        2,
        5,
        "",
    )

    assert (found.namespace, found.cluster_queue) == ("team-a", "all")
    assert found.resources == (queues.Share("plain", "cpu", "300m", "3", "4", "1"),)
    assert [one.position for one in found.waiting] == [1, 2]
    assert as_json(found)["resources"] == [
        {
            "flavor": "plain",
            "resource": "cpu",
            "used": "300m",
            "used_by_all": "3",
            "quota": "4",
            "free": "1",
        }
    ]


def test_queue_without_right_to_read_quota_has_unknown_share() -> None:
    (found,) = queues.queues([read_as(KueueQueue, LOCAL)], {}, [], NOW)
    assert found.resources == (queues.Share("plain", "cpu", "300m", None, None),)
    assert found.pending_in_cluster_queue is None


def test_queue_inactive_reports_reason() -> None:
    shut = {"type": "Active", "status": "False", "message": "ClusterQueue is stopped"}
    (found,) = queues.queues(
        [read_as(KueueQueue, LOCAL | {"status": {"conditions": [shut]}})], {}, [], NOW
    )
    assert found.stopped == "ClusterQueue is stopped"
    (found,) = queues.queues([read_as(KueueQueue, {"metadata": {"name": "new"}})], {}, [], NOW)
    assert (found.stopped, found.resources, found.admitted) == ("", (), 0)


@pytest.mark.parametrize("workload", [{}, {"status": {}}, {"status": {"conditions": []}}])
def test_queue_workload_without_fields_is_listed(workload: dict[str, Any]) -> None:
    bare = {"metadata": {"name": "x"}} | workload
    (found,) = queues.waiting([read_as(QueuedWorkload, bare)])
    assert str(found) == "first of 1 in the queue "
    assert found.workload == "Workload/x"


@pytest.mark.parametrize(
    ("resource", "amount", "readable"),
    [
        ("memory", "214748366", "204.8Mi"),
        ("memory", "4Gi", "4Gi"),
        ("memory", "0", "0"),
        ("memory", "1073741824", "1Gi"),
        ("ephemeral-storage", "100", "100"),
        ("cpu", "500m", "500m"),
        ("requests.cpu", "900100m", "900.1"),
        ("limits.cpu", "1500m", "1.5"),
        ("cpu", "20", "20"),
        ("memory", "many", "many"),
        ("memory", None, None),
    ],
)
def test_share_memory_has_readable_unit(
    resource: str, amount: str | None, readable: str | None
) -> None:
    assert Share("default", resource, "0", None, None).readable(amount) == readable


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
def test_waiting_pod_group_has_reason_and_message(
    found: dict[str, Any], reason: str, text: str
) -> None:
    said = waiting_group(read_as(PodGroup, found))
    assert said and (said.reason, str(said)) == (reason, text)


@pytest.mark.parametrize("phase", ["Running", "Completed", "SomethingNew"])
def test_waiting_running_pod_group_is_none(phase: str) -> None:
    assert (
        waiting_group(read_as(PodGroup, make_pod_group(phase, "NotEnoughResources of before")))
        is None
    )


def test_waiting_without_message_uses_reason_of_condition() -> None:
    said = waiting_group(read_as(PodGroup, make_pod_group("Inqueue", "")))
    assert said and str(said).endswith(": NotEnoughResources")


def make_admitted(name: str, hour: int) -> dict[str, Any]:
    times = {"status": "True", "lastTransitionTime": f"2026-01-01T{hour:02}:00:00Z"}
    return make_workload(name, status={"conditions": [condition("Admitted") | times]})


ADMITTED = [make_admitted(f"admitted-{hour}", hour) for hour in (0, 1, 3, 5)]


def make_queue(cpu: str = "3", workloads: Any = (), local: Any = None, **spec: Any) -> queues.Queue:
    """A queue with a quota of 4 CPUs."""
    specs = {**ALL, "spec": {**ALL["spec"], **spec}}
    cluster_queue = specs | {"status": {"flavorsReservation": taken(cpu)}}
    (queue,) = queues.queues(
        [read_as(KueueQueue, local or LOCAL)],
        {"all": read_as(KueueQueue, cluster_queue)},
        read_list(QueuedWorkload, workloads),
        NOW,
    )
    return queue


def test_queue_guess_is_mean_time_between_readable_admissions_times_position() -> None:
    queue = make_queue(workloads=[*ADMITTED, make_workload("a"), make_workload("b", "11")])
    assert (queue.recent_admissions, queue.interval_seconds) == (4, 5400)
    assert [queue.guess(item.position) for item in queue.waiting] == ["about 90m", "about 3h"]
    assert queue.describe_place() == (
        "would be third in queue; about 4h30m until it is admitted:"
        " a guess from 4 admissions of the last 6h"
    )
    assert queue.describe_place(9).startswith("would be first in queue; about 90m")


def test_queue_guess_without_enough_recent_admissions_is_absent() -> None:
    old = make_admitted("old", 0)
    old["status"]["conditions"][0]["lastTransitionTime"] = "2025-12-31T23:00:00Z"
    queue = make_queue(workloads=[old, *ADMITTED[:2]])
    assert (queue.recent_admissions, queue.guess(1)) == (2, "")
    assert queue.describe_place() == "would be third in queue"


@pytest.mark.parametrize(
    ("strategy", "next_task"),
    [
        ("BestEffortFIFO", "would be admitted now if it requests up to 1 cpu"),
        ("StrictFIFO", "would be second in queue"),
    ],
)
def test_queue_next_task_that_fits_is_held_up_only_by_strict_order(
    strategy: str, next_task: str
) -> None:
    queue = make_queue(workloads=[make_workload("a")], queueingStrategy=strategy)
    assert queue.next_task == next_task


def test_queue_forecast_without_right_to_read_workloads_counts_pending_ones() -> None:
    assert make_queue().describe_place() == "would be third in queue"


def test_queue_forecast_of_stopped_queue_says_why() -> None:
    shut = {"type": "Active", "status": "False", "message": "ClusterQueue is stopped"}
    queue = make_queue(local=LOCAL | {"status": {"conditions": [shut]}})
    assert queue.next_task == "admits nothing now: ClusterQueue is stopped"


def test_queue_next_task_says_what_fits_now() -> None:
    empty = LOCAL | {"status": {}}
    assert make_queue(local=empty).next_task == "would be admitted now if it requests up to 1 cpu"
    assert make_queue("4", local=empty).next_task == "would be first in queue"


def test_queue_workload_beyond_capacity_can_never_be_admitted() -> None:
    message = "insufficient quota for cpu in flavor plain, request > maximum capacity (4)"
    beyond = make_workload("a", status={"conditions": [PENDING | {"message": message}]})
    (waiting,) = queues.waiting([read_as(QueuedWorkload, beyond)])
    assert waiting.reason == f"can never be admitted: {message}"
