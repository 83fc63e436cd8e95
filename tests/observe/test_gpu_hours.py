"""GPU-hours of pods and of recorded failed pods, and their cost."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_sky.observe import evidence, gpu_hours, status
from kubectl_sky.observe.evidence import Evidence
from kubectl_sky.observe.gpu_hours import Span
from kubectl_sky.observe.usage import Gpus, gpus_of
from tests.builders import make_job, make_pod, terminated

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
START = "2026-01-01T00:00:00Z"
LABELS = {"worker-1": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}


def holding(pod: Json, count: int = 2, resource: str = "nvidia.com/gpu") -> Json:
    """Let a pod request GPUs, since midnight."""
    container = {"name": "main", "resources": {"limits": {resource: str(count)}}}
    pod["spec"]["containers"] = [container, {"name": "sidecar"}]
    pod["status"]["startTime"] = START
    return pod


def spans(*pods: Json, labels: Any = None) -> list[Span]:
    (task,) = status.tasks([make_job()], pods)
    return list(gpu_hours.spans(task, pods, LABELS if labels is None else labels, NOW))


def make_span(name: str, user: str, model: str, hours: int, count: int = 1) -> Span:
    start = datetime(2026, 1, 1, 12 - hours, tzinfo=UTC)
    return Span("default", name, name, user, Gpus(count, model), start, NOW)


def test_gpu_hours_running_pod_counts_until_now() -> None:
    (span,) = spans(holding(make_pod(state={"running": {}})))
    assert (span.user, span.name, span.gpus) == ("alice", "train", Gpus(2, "A100-80GB"))
    assert span.hours() == 24
    assert span.hours(datetime(2026, 1, 1, 11, tzinfo=UTC)) == 2
    assert span.hours(datetime(2026, 1, 2, tzinfo=UTC)) == 0


def test_gpu_hours_ended_pod_counts_until_its_last_container() -> None:
    pod = holding(make_pod(phase="Failed", state=terminated(1, at="2026-01-01T03:00:00Z")))
    sidecar = {"name": "sidecar", "state": terminated(0, at="2026-01-01T04:00:00Z")}
    pod["status"]["containerStatuses"][0] = sidecar
    assert spans(pod)[0].hours() == 8


def test_gpu_hours_evicted_pod_counts_until_its_last_condition() -> None:
    pod = holding(make_pod(phase="Failed", reason="Evicted"))
    assert spans(pod)[0].hours() == 0, "its end is not known"
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "lastTransitionTime": START},
        {"type": "DisruptionTarget", "lastTransitionTime": "2026-01-01T02:00:00Z"},
    ]
    assert spans(pod)[0].hours() == 4


def test_gpu_hours_pod_without_gpus_or_start_is_not_counted() -> None:
    waiting = holding(make_pod(phase="Pending"))
    del waiting["status"]["startTime"]
    assert spans(waiting) == spans(holding(make_pod(), 0)) == spans(make_pod()) == []


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "5", "9999-12-31T23:59:59-14:00"])
def test_gpu_hours_invalid_times_of_server_are_ignored(text: Any) -> None:
    pod = holding(make_pod(phase="Failed", state=terminated(1, at=text)))
    assert [span.hours() for span in spans(pod)] == [0]
    pod["status"]["startTime"] = text
    assert spans(pod) == []


def test_gpus_without_labels_of_cluster_node_are_those_requested() -> None:
    pod = holding(make_pod())
    assert gpus_of(pod) == Gpus(2, "nvidia.com/gpu")
    rule = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L4", "x"]}
    other = {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["Tesla-T4"]}
    terms = [{"matchExpressions": [other, rule]}, {"matchFields": []}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    assert gpus_of(pod) == Gpus(2, "L4")
    pod["spec"]["nodeSelector"] = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    assert gpus_of(pod) in (Gpus(2, "L4"), Gpus(2, "T4"))
    assert gpus_of(pod, LABELS["worker-1"]) == Gpus(2, "A100-80GB")
    assert gpus_of(holding(make_pod(), 4, "amd.com/gpu")) == Gpus(4, "amd.com/gpu")


def test_recorded_pod_counts_only_after_it_was_deleted() -> None:
    pod = holding(make_pod(phase="Failed", state=terminated(1, at="2026-01-01T03:00:00Z")))
    (task,) = status.tasks([make_job(end="Failed")], [pod])
    record = Evidence(task.id, "train", "default", "https://x", task.created_at, user="alice")
    stored = record.having(evidence.deaths(task, [pod])).as_json()
    read = evidence.read(stored)
    assert read
    (span,) = gpu_hours.recorded_spans(read, ())
    assert (span.hours(), span.user, span.task_id) == (6, "alice", task.id)
    assert not list(gpu_hours.recorded_spans(read, [pod["metadata"]["name"]]))
    del stored["user"]
    for death in stored["deaths"]:  # type: ignore[attr-defined]
        del death["gpus"], death["gpu"], death["started_at"]
    earlier = evidence.read(stored)
    assert earlier and not list(gpu_hours.recorded_spans(earlier, ())), "of an earlier version"


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("user", [("bob", 1, 16, 32), ("alice", 2, 5, None)]),
        ("name", [("big", 1, 16, 32), ("one", 1, 3, 3), ("two", 1, 2, None)]),
        ("gpu", [("A100-80GB", 1, 16, 32), ("A100", 1, 3, 3), ("MI300X", 1, 2, None)]),
    ],
)
def test_gpu_hours_rows_have_cost_if_all_prices_are_known(by: str, expected: Any) -> None:
    prices = {"a100": 1.0, "A100-80GB": 2, "MI300X": float("nan"), "H100": 5}
    used = [
        make_span("one", "alice", "A100", 3),
        make_span("two", "alice", "MI300X", 2),
        make_span("big", "bob", "A100-80GB", 8, 2),
    ]
    rows = gpu_hours.rows(used, by, LONG_AGO, prices)
    assert [(row.key, row.tasks, row.hours, row.cost) for row in rows] == expected
    total = gpu_hours.total(used, LONG_AGO, prices)
    assert (total.tasks, total.hours, total.cost) == (3, 21, None)
    assert gpu_hours.total(used, LONG_AGO, {}).cost is None
    assert gpu_hours.unpriced(used, prices) == ["MI300X"]
    assert gpu_hours.unpriced(used, {}) == []


def test_price_of_variant_is_that_of_its_model() -> None:
    assert gpu_hours.price_of("A100-80GB-SXM", {"A100": 1, "A100-80GB": 2}) == 2
    assert gpu_hours.price_of("A100-80GB", {"A100": 1}) == 1
    assert gpu_hours.price_of("A1000", {"A100": 1}) is None
    assert gpu_hours.price_of("A100", {"A100-80GB": 1}) is None
