"""The Job controller, compared with recorded behavior of a real one."""

import time

import pytest

from kubectl_sky.practice import job_status
from kubectl_sky.practice.api import Deletion
from tests.practice.endings import BACKOFF, complete, conditions, failed
from tests.practice.world import NS, World, job, settle, until

pytestmark = pytest.mark.anyio


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


async def test_job_parallelism_limits_active_pods(w: World) -> None:
    w.node()
    w.create("jobs.batch", "a", job(parallelism=2, completions=5))
    names_seen = set()
    for _ in range(5):
        await settle()
        active = [pod for pod in w.pods() if pod["status"]["phase"] == "Pending"]
        assert len(active) <= 2
        names_seen.add(active[0]["metadata"]["name"])
        w.end(active[0])
    await settle()
    stored = w.get("jobs.batch", "a")
    assert (stored["status"]["succeeded"], len(w.pods()), len(names_seen)) == (5, 5, 5)
    assert conditions(stored)[-1] == complete("Complete")


async def test_job_work_queue_waits_for_all_pods(w: World) -> None:
    w.create("jobs.batch", "a", job(parallelism=3))
    await settle()
    first, *others = w.pods()
    w.end(first)
    await settle()
    assert not conditions(w.get("jobs.batch", "a"))
    assert len(w.pods()) == 3
    for pod in others:
        w.end(pod)
    await settle()
    assert conditions(w.get("jobs.batch", "a"))[-1] == complete("Complete")


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


async def test_job_failed_pod_is_replaced_after_backoff(w: World) -> None:
    w.create("jobs.batch", "a", job())
    await settle()
    w.end(w.pods()[0], 1)
    await settle(100)
    stored = w.get("jobs.batch", "a")
    assert len(w.pods()) == 1, "the next pod is created after 10 s"
    assert stored["status"]["failed"] == 1 and "active" not in stored["status"]


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


async def test_job_active_deadline_exceeded_deletes_pods(w: World) -> None:
    spec = job(activeDeadlineSeconds=2, parallelism=2, completions=2)  # of whole seconds
    w.create("jobs.batch", "a", spec)
    await until(lambda: len(conditions(w.get("jobs.batch", "a"))) == 2)
    stored = w.get("jobs.batch", "a")
    why = "Job was active longer than specified deadline"
    assert conditions(stored) == failed("DeadlineExceeded", why)
    assert stored["status"]["failed"] == 2
    assert w.pods() == []
    assert len(w.events("SuccessfulDelete")) == 2


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


async def test_job_deleted_pod_counts_as_failed(w: World) -> None:
    w.create("jobs.batch", "a", job())
    await settle()
    w.api.delete("pods", (NS, w.pods()[0]["metadata"]["name"]))
    await settle()
    stored = w.get("jobs.batch", "a")
    assert stored["status"]["failed"] == 1, "as counted by a real controller"


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


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_job_deleted_with_propagation_deletes_pods(w: World, propagation: str) -> None:
    w.node()
    w.create("jobs.batch", "a", job())
    await settle()
    w.run(w.pods()[0])
    w.api.delete("jobs.batch", (NS, "a"), Deletion(propagation))
    await settle()
    (pod,) = w.pods()
    assert "deletionTimestamp" in pod["metadata"], "the kubelet stops the pod"
    assert bool(w.api.state.get("jobs.batch", NS, "a")) == (propagation == "Foreground")
    w.api.delete("pods", (NS, pod["metadata"]["name"]), Deletion(grace=0))
    await settle()
    assert not w.pods() and not w.api.state.get("jobs.batch", NS, "a")


async def test_job_deleted_with_orphan_keeps_pods(w: World) -> None:
    w.create("jobs.batch", "a", job())
    await settle()
    w.api.delete("jobs.batch", (NS, "a"), Deletion("Orphan"))
    await settle()
    assert not w.api.state.get("jobs.batch", NS, "a")
    assert "ownerReferences" not in w.pods()[0]["metadata"]


async def test_job_lower_parallelism_deletes_pods(w: World) -> None:
    w.create("jobs.batch", "a", job(parallelism=5, completions=9))
    await settle()
    assert len(w.pods()) == 5
    w.api.change("jobs.batch", (NS, "a"), lambda obj: obj["spec"].update(parallelism=2))
    await settle()
    stored = w.get("jobs.batch", "a")
    assert len(w.pods()) == 2
    assert stored["status"]["active"] == 2 and "failed" not in stored["status"]


async def test_job_with_600_pods_completes(w: World) -> None:
    w.create("jobs.batch", "a", job(parallelism=600, completions=600))
    await until(lambda: len(w.pods()) == 600)
    for pod in w.pods():
        w.end(pod)
    await until(lambda: conditions(w.get("jobs.batch", "a")))
    assert w.get("jobs.batch", "a")["status"]["succeeded"] == 600
