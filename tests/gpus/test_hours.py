"""GPU-hours of the objects of tasks."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_sky.gpus import hours
from kubectl_sky.gpus.hours import Span
from kubectl_sky.observe import ownership
from kubectl_sky.plan.resources import Gpus
from kubectl_sky.words import names
from tests.builders import make_indexed_pod, make_job, make_pod, make_whole, terminated
from tests.reading import read_jobs, read_pods

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
LABELS = {"worker-1": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}
TEMPLATE = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}, {}]}}


def at(hour: int) -> str:
    return f"2026-01-01T{hour:02}:00:00Z"


def condition(name: str, hour: int, status: str = "True") -> Json:
    return {"type": name, "status": status, "lastTransitionTime": at(hour)}


def holding(item: Json, *conditions: Json, template: Any = TEMPLATE, **status: Any) -> Json:
    """Let the pods of an object request GPUs."""
    item["spec"]["template"] = template
    item["status"] |= {"conditions": list(conditions), **status}
    return item


def started(pod: Json, hour: int, end: int | None = None) -> Json:
    """Let a pod request GPUs, and start and end at these hours."""
    pod["spec"] |= TEMPLATE["spec"]
    pod["status"]["startTime"] = at(hour)
    if end is not None:
        pod["status"] |= {"phase": "Failed", "conditions": [condition("DisruptionTarget", end)]}
    return pod


def spans(*items: Json, pods: Any = (), labels: Any = None) -> list[Span]:
    return list(hours.spans(ownership.decide(read_jobs(items), read_pods(pods)), NOW, labels))


def facts(*items: Json, pods: Any = ()) -> list[tuple[float, bool]]:
    return [(span.hours(), span.is_exact) for span in spans(*items, pods=pods)]


def make_span(name: str, user: str, model: str, count: int = 1, **more: Any) -> Span:
    start = datetime(2026, 1, 1, 12 - more.pop("hours"), tzinfo=UTC)
    return Span("default", name, name, user, Gpus(count, model), start, NOW, **more)


def test_running_task_counts_from_its_first_pod_until_now() -> None:
    pod = started(make_pod(), 2)
    (span,) = spans(holding(make_job(), active=1), pods=[pod], labels=LABELS)
    assert (span.user, span.name, span.gpus) == ("alice", "train", Gpus(2, "A100-80GB"))
    assert (span.hours(), span.is_exact) == (20, True), "it waited for two hours"
    assert span.hours(datetime(2026, 1, 1, 11, tzinfo=UTC)) == 2
    assert span.hours(datetime(2026, 1, 2, tzinfo=UTC)) == 0


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_finished_task_without_pods_counts_from_start_to_end_of_its_job(end: str) -> None:
    job = holding(make_job(), condition(end, 3), succeeded=1)
    assert facts(job) == [(6, False)]
    assert facts(job, pods=[started(make_pod(), 1)]) == [(4, True)]
    job["metadata"]["labels"][names.QUEUE] = "team"
    assert facts(job) == [(6, True)], "its start is its admission"


def test_pods_that_all_exist_count_until_their_own_end() -> None:
    whole = holding(make_whole(), condition("Complete", 9), succeeded=3, failed=1)
    ended = started(make_indexed_pod(0, state=terminated(1, at=at(3))), 1, 8)
    evicted = started(make_indexed_pod(1), 1, 8)
    del evicted["status"]["conditions"]
    pods = [ended, evicted, *(started(make_indexed_pod(index), 1, 5) for index in (1, 2))]
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] += str(number)
    assert facts(whole, pods=pods) == [(4, True), (0, True), (8, True), (8, True)]


def test_pod_that_replaced_a_deleted_one_does_not_shorten_the_time() -> None:
    job = holding(make_job(), active=1, failed=1)
    assert facts(job, pods=[started(make_pod(), 10)]) == [(24, False)]
    restarted = holding(make_whole(backend="jobset"), restarts=1)
    restarted["spec"]["replicatedJobs"] = [{"template": {"spec": {**restarted["spec"]}}}]
    pods = [started(make_indexed_pod(index), 10) for index in range(3)]
    (span,) = spans(restarted, pods=pods)
    assert span.start == datetime(2026, 1, 1, tzinfo=UTC)


def test_task_without_gpus_start_or_started_pod_is_not_counted() -> None:
    assert spans(holding(make_job(), template={"spec": {}})) == []
    assert spans(holding(make_job(), active=1), pods=[make_pod(phase="Pending")]) == []
    new = holding(make_job())
    del new["status"]["startTime"]
    assert spans(new) == []
    suspended = holding(make_job())
    suspended["spec"]["suspend"] = True
    assert spans(suspended) == [], "its GPUs are those of others now"


def test_task_with_missing_jobs_is_not_exact() -> None:
    job = holding(make_job(nodes=2), condition("Complete", 1), succeeded=1)
    pod = started(make_pod(), 0)
    assert facts(job, pods=[pod]) == [(2, False)]


def jobset(*conditions: Json) -> Json:
    item = make_whole(backend="jobset", conditions=list(conditions))
    del item["status"]["startTime"]
    job = {"completions": 3, "template": TEMPLATE}
    item["spec"] = {"replicatedJobs": [{"template": {"spec": job}}]}
    return item | {"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2"}


def appwrapper(phase: str, *conditions: Json, components: Any = None) -> Json:
    item = make_whole(backend="appwrapper", phase=phase, conditions=list(conditions))
    job = {"spec": {"completions": 3, "template": TEMPLATE}}
    item["spec"] = {"components": components or [{"template": job}]}
    return item | {"kind": "AppWrapper", "apiVersion": "workload.codeflare.dev/v1beta2"}


def mpijob(*conditions: Json) -> Json:
    item = make_whole(backend="mpijob", conditions=list(conditions))
    launcher = {"replicas": 1, "template": TEMPLATE}
    item["spec"] = {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": launcher | {"replicas": 2}}}
    return item | {"kind": "MPIJob", "apiVersion": "kubeflow.org/v2beta1"}


def array(*conditions: Json) -> Json:
    item = holding(make_whole(nodes=9, backend="array"), *conditions)
    item["spec"]["parallelism"] = 3
    return item


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (holding(make_whole(), condition("Complete", 2)), 12),
        (array(condition("Complete", 2)), 12),
        (jobset(condition("Failed", 2)), 12),
        (jobset(condition("Suspended", 1, "False"), condition("Completed", 2)), 6),
        (jobset(condition("Suspended", 1)), None),
        (mpijob(condition("Succeeded", 2)), 12),
        (
            appwrapper(
                "Succeeded",
                condition("ResourcesDeployed", 1),
                condition("QuotaReserved", 2, "False"),
            ),
            6,
        ),
        (appwrapper("Running", condition("ResourcesDeployed", 11)), 6),
        (appwrapper("Failed", condition("ResourcesDeployed", 1), condition("Unhealthy", 2)), 6),
        (appwrapper("Failed", condition("Unhealthy", 2)), 0),
        (appwrapper("Suspended"), None),
    ],
)
def test_each_backend_knows_start_and_end_of_three_nodes(item: Json, expected: int | None) -> None:
    assert facts(item) == ([] if expected is None else [(expected, False)])


@pytest.mark.parametrize("template", [None, [], "x", {"spec": None}, {"spec": {"template": 3}}])
def test_template_of_any_type_is_not_counted(template: Any) -> None:
    deployed = condition("ResourcesDeployed", 1)
    assert spans(appwrapper("Running", deployed, components=[{"template": template}])) == []
    many = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "9" * 400}}}]}
    job = {"spec": {"template": {"spec": many}}}
    assert spans(appwrapper("Running", deployed, components=[{"template": job}])) == []


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "5", "9999-12-31T23:59:59-14:00"])
def test_invalid_times_of_server_are_ignored(text: Any) -> None:
    assert spans(holding(make_job(), startTime=text)) == []
    end = condition("Complete", 1) | {"lastTransitionTime": text}
    assert spans(holding(make_job(), end)) == spans(holding(make_job())) * (not text)
    pod = started(make_pod(), 1)
    pod["status"]["startTime"] = text
    assert spans(holding(make_job(), active=1), pods=[pod]) == []


def test_of_tasks_adds_up_the_nodes_of_a_task() -> None:
    nodes = [holding(make_job(index, nodes=2), condition("Complete", 3)) for index in (0, 1)]
    tasks = ownership.decide(read_jobs(nodes), ())
    assert hours.of_tasks(tasks, NOW) == {tasks[0].key: 12}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("user", [("bob", 1, 16), ("alice", 2, 5)]),
        ("name", [("big", 1, 16), ("one", 1, 3), ("two", 1, 2)]),
        ("gpu", [("A100-80GB", 1, 16), ("A100", 1, 3), ("MI300X", 1, 2)]),
    ],
)
def test_gpu_hours_rows_are_added_up_by_key_largest_first(by: str, expected: Any) -> None:
    used = [
        make_span("one", "alice", "A100", hours=3),
        make_span("two", "alice", "MI300X", hours=2),
        make_span("big", "bob", "A100-80GB", 2, hours=8),
    ]
    rows = hours.rows(used, by, LONG_AGO)
    assert [(row.key, row.tasks, row.hours) for row in rows] == expected
    total = hours.total(used, LONG_AGO)
    assert (total.key, total.tasks, total.hours) == ("total", 3, 21)


def test_inexact_counts_tasks_with_any_hours_that_are_not_exact() -> None:
    spans = [
        make_span("one", "alice", "A100", hours=3),
        make_span("one", "alice", "A100", hours=1, is_exact=False),
        make_span("two", "bob", "A100", hours=2),
    ]
    assert hours.inexact(spans) == 1
