"""The Job controller, compared with recorded behavior of a real one."""

import time
from typing import Any

import pytest

from kubectl_sky_practice import job_status
from kubectl_sky_practice.api import Deletion
from practice_tests.world import NS, Json, World, job, settle, until

pytestmark = pytest.mark.anyio

Condition = tuple[str, str, str, str]  # type, status, reason and message of a condition


def conditions(obj: Json) -> list[Condition]:
    names = ("type", "status", "reason", "message")
    entries = obj["status"].get("conditions", [])
    return [tuple(entry[name] for name in names) for entry in entries]


def counts(obj: Json) -> Json:
    return {key: value for key, value in obj["status"].items() if isinstance(value, int | str)}


def complete(kind: str) -> Condition:
    return (kind, "True", "CompletionsReached", "Reached expected number of succeeded pods")


def failed(reason: str, message: str) -> list[Condition]:
    return [(kind, "True", reason, message) for kind in ("FailureTarget", "Failed")]


BACKOFF = failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")


async def test_job_succeeded_pod_completes_it(w: World) -> None:
    w.node()
    w.create("jobs.batch", "a", job())
    await settle()
    (pod,) = w.pods()
    owner = pod["metadata"]["ownerReferences"][0]
    assert owner["uid"] == w.get("jobs.batch", "a")["metadata"]["uid"]
    assert owner["controller"] and owner["blockOwnerDeletion"]
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert pod["metadata"]["labels"]["job-name"] == "a"
    assert "annotations" not in pod["metadata"]

    w.run(pod)
    await settle()
    status = w.get("jobs.batch", "a")["status"]
    assert (status["active"], status["ready"], status["terminating"]) == (1, 1, 0)

    w.end(pod)
    await settle()
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == [complete("SuccessCriteriaMet"), complete("Complete")]

    status = stored["status"]
    assert "active" not in status and "failed" not in status
    assert (status["succeeded"], status["ready"], status["terminating"]) == (1, 0, 0)
    assert status["uncountedTerminatedPods"] == {}
    assert status["startTime"] <= status["completionTime"]
    assert "finalizers" not in w.pods()[0]["metadata"]
    assert w.events("Completed") == ["Job completed"]
    assert w.events("SuccessfulCreate") == [f"Created pod: {pod['metadata']['name']}"]


@pytest.mark.usefixtures("no_wait")
async def test_job_backoff_limit_exceeded_fails_it(w: World) -> None:
    w.create("jobs.batch", "a", job(backoffLimit=1))
    for failures in (1, 2):
        await settle()
        w.end(next(pod for pod in w.pods() if pod["status"]["phase"] == "Pending"), 1)
        await settle()
        assert w.get("jobs.batch", "a")["status"]["failed"] == failures
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == BACKOFF
    assert "completionTime" not in stored["status"]
    assert w.events("BackoffLimitExceeded") == [BACKOFF[0][3]]
    assert len(w.pods()) == 2


def test_job_backoff_doubles_up_to_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    waits = [job_status.backoff(count, 1000.0) for count in (0, 1, 2, 3, 6, 7, 50)]
    assert waits == [0, 10, 20, 40, 320, 600, 600]
    assert (job_status.backoff(1, 991.0), job_status.backoff(1, 989.0)) == (1, 0)


async def test_job_restart_policy_on_failure_counts_restarts(w: World) -> None:
    w.node()
    w.create("jobs.batch", "a", job(backoffLimit=1, pod={"restartPolicy": "OnFailure"}))
    await settle()
    w.run(w.pods()[0])
    restarted = {"containerStatuses": [{"name": "main", "restartCount": 1, "state": {}}]}
    key = (NS, w.pods()[0]["metadata"]["name"])
    w.api.change("pods", key, lambda pod: pod["status"].update(restarted))
    await settle()
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == BACKOFF[:1], "failed once the pod is gone"
    assert (stored["status"]["failed"], stored["status"]["terminating"]) == (1, 1)

    w.api.delete("pods", key, Deletion(grace=0))
    await settle()
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == BACKOFF
    assert (stored["status"]["failed"], stored["status"]["terminating"]) == (1, 0)


async def test_job_ttl_deletes_finished_job(w: World) -> None:
    w.create("jobs.batch", "a", job(ttlSecondsAfterFinished=2))  # of whole seconds
    await settle()
    w.end(w.pods()[0])
    await settle()
    assert conditions(w.get("jobs.batch", "a"))[-1] == complete("Complete")
    await until(lambda: not w.api.state.all("jobs.batch", NS))
    await settle()
    assert w.pods() == []


async def test_job_suspend_deletes_pods_and_resume_creates_them(w: World) -> None:
    def suspend(w: World, value: bool) -> None:
        w.api.change("jobs.batch", (NS, "a"), lambda obj: obj["spec"].update(suspend=value))

    w.create("jobs.batch", "a", job(suspend=True))
    await settle()
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == [("Suspended", "True", "JobSuspended", "Job suspended")]
    assert "startTime" not in stored["status"] and not w.pods()
    suspend(w, False)
    await settle()
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == [("Suspended", "False", "JobResumed", "Job resumed")]
    assert stored["status"]["startTime"] and stored["status"]["active"] == 1
    suspend(w, True)
    await settle()
    stored = w.get("jobs.batch", "a")
    assert conditions(stored) == [("Suspended", "True", "JobSuspended", "Job suspended")]
    assert not w.pods() and not {"startTime", "failed", "active"} & stored["status"].keys()


async def test_job_exceeded_quota_is_reported_and_retried(w: World) -> None:
    w.create("resourcequotas", "few", {"hard": {"pods": "1"}})
    w.create("jobs.batch", "a", job(parallelism=2, completions=2))
    await settle()
    assert len(w.pods()) == 1
    (message,) = w.events("FailedCreate")
    assert message.startswith('Error creating: pods "a-')
    assert message.endswith(
        "is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"
    )
    w.end(w.pods()[0])
    await until(lambda: len(w.pods()) == 2)


async def test_job_replacement_policy_failed_waits_for_end_of_deleted_pod(w: World) -> None:
    w.node()
    w.create("jobs.batch", "a", job(podReplacementPolicy="Failed"))
    await settle()
    (pod,) = w.pods()
    w.run(pod)
    w.api.delete("pods", (NS, pod["metadata"]["name"]))
    await settle()
    status = w.get("jobs.batch", "a")["status"]
    assert (status["terminating"], "failed" in status, len(w.pods())) == (1, False, 1)
    w.end(pod)
    await settle()
    assert conditions(w.get("jobs.batch", "a"))[-1] == complete("Complete")


async def test_job_with_600_pods_completes(w: World) -> None:
    w.create("jobs.batch", "a", job(parallelism=600, completions=600))
    await until(lambda: len(w.pods()) == 600)
    for pod in w.pods():
        w.end(pod)
    await until(lambda: conditions(w.get("jobs.batch", "a")))
    assert w.get("jobs.batch", "a")["status"]["succeeded"] == 600


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
