"""Evidence of failed nodes: pods, lines, order, and invalid files."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.cluster.encoding import decode
from kubectl_sky.observe import evidence, status
from kubectl_sky.observe.documents import DeletedPod
from kubectl_sky.observe.evidence import BYTES, LINES, Evidence
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.verdict import judge
from tests.builders import condition, make_indexed_pod, make_job, make_pod, make_whole, terminated
from tests.reading import read_jobs, read_objects, read_pods

Json = dict[str, Any]


def make_dead(node: int, code: int = 3, minute: int = 5) -> Json:
    at = f"2026-01-01T00:{minute:02}:00Z"
    return make_pod(node, "Failed", terminated(code, at=at))


def make_task(*pods: Json) -> status.TaskStatus:
    jobs = [make_job(node, nodes=2, end="Failed") for node in range(2)]
    (task,) = status.tasks(read_jobs(jobs), read_pods(pods))
    return task


def make_evidence(*found: DeletedPod) -> Evidence:
    task = make_task()
    kept = Evidence(task.id, task.name, task.namespace, "https://x", task.created_at)
    return kept.merge(found, task)


def test_deaths_include_only_failed_pods() -> None:
    pods = (make_dead(0, minute=7), make_pod(1, "Running", {"running": {}}))
    (death,) = evidence.deaths(make_task(*pods), read_pods(pods))
    assert (death.rank, death.name, death.exit_code, death.end) == (
        0,
        "node-0",
        3,
        "exit code 3",
    )
    assert (death.host, death.ended_at) == ("worker-1", "2026-01-01T00:07:00Z")


def test_deaths_stopped_pod_is_sorted_after_failed_pod() -> None:
    first = make_dead(0, 137, minute=4)
    second = make_dead(1, minute=6)
    first["metadata"]["deletionTimestamp"] = "2026-01-01T00:04:00Z"
    jobs = [make_job(0, nodes=2), make_job(1, nodes=2, end="Failed")]
    jobs[0]["metadata"]["annotations"]["kubectl-sky/stopped-for"] = "node-1"
    (task,) = status.tasks(read_jobs(jobs), read_pods((first, second)))
    deaths = evidence.settle(evidence.deaths(task, read_pods((first, second))), task)
    assert [(death.rank, death.reason) for death in deaths] == [(1, "Error"), (0, "Stopped")]


def test_deaths_evicted_pod_of_indexed_job_is_the_first_failure() -> None:
    """The Job deletes the other pods; an evicted pod has a time of deletion, too."""
    pods = [make_indexed_pod(index, "Failed", terminated(143)) for index in range(2)]
    for pod in pods:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:06:00Z"
    pods[1]["status"]["conditions"] = [condition("DisruptionTarget", "EvictionByEvictionAPI")]
    whole = make_whole(2, conditions=[condition("Failed", "BackoffLimitExceeded")])
    (task,) = status.tasks(read_jobs([whole]), read_pods(pods))
    assert task.note == "node-1: evicted from its cluster node (exit code 143)"
    (gone,) = status.tasks(read_jobs([whole]), [])
    kept = Evidence(task.id, task.name, task.namespace, "https://x", task.created_at)
    restored = evidence.restored(gone, kept.merge(evidence.deaths(task, read_pods(pods)), task))
    assert restored.note == "node-1: evicted from its cluster node (exit code 143)"
    verdict = judge(
        restored, TaskSnapshot(task.id, "default", read_objects({"Job": (whole,)}), {}, restored)
    )
    assert [finding.rule for finding in verdict.findings] == ["evicted"]


def test_deaths_deleted_pod_is_not_stopped() -> None:
    pod = make_dead(0, 137)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:00Z"
    (death,) = evidence.deaths(make_task(pod), read_pods((pod,)))
    assert (death.reason, death.exit_code) == ("PodDeleted", 137)


def test_deaths_evicted_pod_has_no_exit_code() -> None:
    pod = make_pod(0, "Failed", reason="Evicted", message="low on memory")
    (death,) = evidence.deaths(make_task(pod), read_pods((pod,)))
    assert (death.end, death.message) == ("Evicted", "low on memory")


def test_evidence_gone_excludes_pods_still_in_cluster() -> None:
    pods = (make_dead(0), make_dead(1))
    found = make_evidence(*evidence.deaths(make_task(*pods), read_pods(pods)))
    assert [one.rank for one in found.gone(make_task(pods[1])).deaths] == [0]
    assert found.gone(make_task(*pods)).deaths == ()
    stopped = make_evidence(
        DeletedPod(0, "node-0", "a", reason="Stopped"), DeletedPod(1, "node-1", "b")
    )
    assert [one.rank for one in stopped.gone(make_task()).deaths] == [1, 0]
    assert make_evidence(stopped.deaths[1]).gone(make_task()).deaths == ()


def test_restored_node_without_pod_has_recorded_cause() -> None:
    pods = (make_dead(0, 7), make_dead(1, minute=6))
    record = make_evidence(*evidence.deaths(make_task(*pods), read_pods(pods)))
    nodes = evidence.restored(make_task(pods[1]), record).nodes
    assert [(node.reason, node.exit_code) for node in nodes] == [("Error", 7), ("Error", 3)]
    assert evidence.restored(make_task(), make_evidence()) == make_task()


def test_evidence_merge_keeps_lines_of_known_pod() -> None:
    known = make_evidence(DeletedPod(0, "node-0", "a", lines=("x",)))
    more = known.merge([DeletedPod(0, "node-0", "a"), DeletedPod(1, "node-1", "b")], make_task())
    assert [(one.pod, one.lines) for one in more.deaths] == [("a", ("x",)), ("b", ())]


def test_evidence_of_other_task_with_same_id_is_rejected() -> None:
    found = make_evidence()
    assert found.of(make_task())
    older = Evidence(found.task_id, "x", "default", "https://x", "2025-01-01T00:00:00Z")
    assert not older.of(make_task())


@pytest.mark.parametrize(
    ("written", "last"),
    [
        ([], ()),
        ([b"%d" % number for number in range(LINES + 9)], ("9", str(LINES + 8))),
        ([b"first", b"a" * BYTES + b"end"], ("a" * (BYTES - 3) + "end",) * 2),
    ],
)
def test_last_lines_are_bounded(written: list[bytes], last: tuple[str, ...]) -> None:
    lines = evidence.last_lines(written)
    assert (*lines[:1], *lines[-1:]) == last


_DEATHS = st.builds(
    DeletedPod,
    st.integers(0, 9),
    *[st.text(max_size=20)] * 6,
    exit_code=st.none() | st.integers(0, 255),
    lines=st.lists(st.text(max_size=20), max_size=5).map(tuple),
)


@given(st.lists(_DEATHS, max_size=3))
def test_evidence_json_round_trip_is_equal(deaths: list[DeletedPod]) -> None:
    found = make_evidence(*deaths)
    assert decode(msgspec.json.encode(found), Evidence) == found


@pytest.mark.parametrize("change", [{"rank": "x"}, {"exit_code": []}, {"lines": 7}, {"rank": None}])
def test_invalid_evidence_is_refused(change: Json) -> None:
    value = make_evidence(DeletedPod(0, "node-0", "a")).as_json()
    value["deaths"][0] |= change
    with pytest.raises(ValueError, match="Expected"):
        decode(json.dumps(value).encode(), Evidence)
