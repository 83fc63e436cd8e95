"""Failure policies and indexes of Jobs, as on a real cluster."""

from typing import Any

import pytest

from kubectl_sky.practice import job_status
from tests.practice.endings import complete, conditions, counts, failed
from tests.practice.world import NS, Json, World, job, settle

pytestmark = pytest.mark.anyio

POLICY: Json = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
}


@pytest.mark.usefixtures("no_wait")
async def test_job_pod_failure_policy_ignores_disruption_and_fails_on_exit_code(w: World) -> None:
    w.create("jobs.batch", "a", job(podFailurePolicy=POLICY, backoffLimit=0))
    await settle()
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    pod = w.pods()[0]
    key = (NS, pod["metadata"]["name"])
    w.api.change("pods", key, lambda obj: obj["status"].update(conditions=disrupted))
    w.end(pod, 1)
    await settle()
    stored = w.get("jobs.batch", "a")
    assert "failed" not in stored["status"], "ignored"
    (pod,) = [pod for pod in w.pods() if pod["status"]["phase"] == "Pending"]
    w.end(pod, 7)
    await settle()
    name = f"{NS}/{pod['metadata']['name']}"
    why = f"Container main for pod {name} failed with exit code 7"
    why += " matching FailJob rule at index 0"
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == failed("PodFailurePolicy", why)
    assert stored["status"]["failed"] == 1
    assert stored["spec"]["podReplacementPolicy"] == "Failed"


def indexed(**more: Any) -> Json:
    return job(completionMode="Indexed", parallelism=3, completions=3, **more)


async def test_job_indexed_pods_have_index_and_completed_indexes(w: World) -> None:
    w.create("jobs.batch", "a", indexed())
    await settle()
    pods = w.pods()
    for at, pod in enumerate(pods):
        assert pod["metadata"]["name"].startswith(f"a-{at}-")
        assert pod["spec"]["hostname"] == f"a-{at}"
        for part in ("labels", "annotations"):
            assert pod["metadata"][part][job_status.INDEX] == str(at)
        path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
        assert pod["spec"]["containers"][0]["env"] == [variable]
    w.end(pods[2])
    w.end(pods[0])
    await settle()
    stored = w.get("jobs.batch", "a")
    assert stored["status"]["completedIndexes"] == "0,2"
    w.end(pods[1])
    await settle()
    stored = w.get("jobs.batch", "a")
    assert stored["status"]["completedIndexes"] == "0-2"
    assert conditions(stored)[-1] == complete("Complete")


@pytest.mark.usefixtures("no_wait")
async def test_job_backoff_limit_per_index_fails_index(w: World) -> None:
    w.create("jobs.batch", "a", indexed(backoffLimitPerIndex=1))
    await settle()
    assert w.get("jobs.batch", "a")["status"]["failedIndexes"] == ""
    first, second, third = w.pods()
    w.end(first)
    w.end(second, 1)
    await settle()
    (again,) = [
        pod for pod in w.pods() if pod["metadata"]["name"] not in str([first, second, third])
    ]
    assert again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
    w.end(again, 1)
    w.end(third)
    await settle()
    stored = w.get("jobs.batch", "a")
    assert counts(stored) | {"completedIndexes": "0,2", "failedIndexes": "1"} == counts(stored)
    assert (stored["status"]["succeeded"], stored["status"]["failed"]) == (2, 2)
    assert conditions(stored) == failed("FailedIndexes", "Job has failed indexes")


def test_job_indexes_are_formatted_and_parsed() -> None:
    for text, indexes in (("", set()), ("1", {1}), ("0,2-4,6,7", {0, 2, 3, 4, 6, 7})):
        assert job_status.format_indexes(indexes) == text
        assert job_status.parse_indexes(text, 10) == indexes
    assert job_status.parse_indexes("0-9", 3) == {0, 1, 2}
