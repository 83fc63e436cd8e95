"""The Job controller, against what a real one was seen to do with the same Jobs."""

import time
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.practice import job_view
from kubectl_sky.practice.api import Deletion
from tests.practice.world import NS, Json, World, job, play, settle, until


def conditions(found: Json) -> list[tuple[str, str, str, str]]:
    names = ("type", "status", "reason", "message")
    listed = found["status"].get("conditions", [])
    return [tuple(one[name] for name in names) for one in listed]  # type: ignore[misc]


def counts(found: Json) -> Json:
    return {key: value for key, value in found["status"].items() if isinstance(value, int | str)}


def complete(kind: str) -> tuple[str, str, str, str]:
    return (kind, "True", "CompletionsReached", "Reached expected number of succeeded pods")


def failed(reason: str, message: str) -> list[tuple[str, str, str, str]]:
    return [(kind, "True", reason, message) for kind in ("FailureTarget", "Failed")]


BACKOFF = failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods follow failed ones at once."""
    monkeypatch.setattr(job_view, "wait", lambda *_: 0.0)


def test_success(tmp_path: Path) -> None:
    async def story(w: World) -> None:
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
        found = w.get("jobs.batch", "a")
        assert conditions(found) == [complete("SuccessCriteriaMet"), complete("Complete")]
        status = found["status"]
        assert "active" not in status and "failed" not in status
        assert (status["succeeded"], status["ready"], status["terminating"]) == (1, 0, 0)
        assert status["uncountedTerminatedPods"] == {}
        assert status["startTime"] <= status["completionTime"]
        assert "finalizers" not in w.pods()[0]["metadata"]
        assert w.events("Completed") == ["Job completed"]
        assert w.events("SuccessfulCreate") == [f"Created pod: {pod['metadata']['name']}"]

    play(tmp_path, story)


def test_parallelism_and_completions(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.node()
        w.create("jobs.batch", "a", job(parallelism=2, completions=5))
        seen = set()
        for _ in range(5):
            await settle()
            active = [pod for pod in w.pods() if pod["status"]["phase"] == "Pending"]
            assert len(active) <= 2
            seen.add(active[0]["metadata"]["name"])
            w.end(active[0])
        await settle()
        found = w.get("jobs.batch", "a")
        assert (found["status"]["succeeded"], len(w.pods()), len(seen)) == (5, 5, 5)
        assert conditions(found)[-1] == complete("Complete")

    play(tmp_path, story)


def test_work_queue_waits_for_all_pods(tmp_path: Path) -> None:
    async def story(w: World) -> None:
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

    play(tmp_path, story)


@pytest.mark.usefixtures("no_wait")
def test_backoff_limit(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(backoffLimit=1))
        for failures in (1, 2):
            await settle()
            w.end(next(pod for pod in w.pods() if pod["status"]["phase"] == "Pending"), 1)
            await settle()
            assert w.get("jobs.batch", "a")["status"]["failed"] == failures
        found = w.get("jobs.batch", "a")
        assert conditions(found) == BACKOFF
        assert "completionTime" not in found["status"]
        assert w.events("BackoffLimitExceeded") == [BACKOFF[0][3]]
        assert len(w.pods()) == 2

    play(tmp_path, story)


def test_back_off(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job())
        await settle()
        w.end(w.pods()[0], 1)
        await settle(100)
        found = w.get("jobs.batch", "a")
        assert len(w.pods()) == 1, "the next pod comes after ten seconds"
        assert found["status"]["failed"] == 1 and "active" not in found["status"]

    play(tmp_path, story)


def test_back_off_doubles() -> None:
    waits = [round(job_view.wait(count, time.time())) for count in (0, 1, 2, 3, 6, 7, 50)]
    assert waits == [0, 10, 20, 40, 320, 600, 600]
    assert job_view.wait(1, time.time() - 11) == 0


def test_restarts_count_with_on_failure(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.node()
        w.create("jobs.batch", "a", job(backoffLimit=1, pod={"restartPolicy": "OnFailure"}))
        await settle()
        w.run(w.pods()[0])
        restarted = {"containerStatuses": [{"name": "main", "restartCount": 1, "state": {}}]}
        key = (NS, w.pods()[0]["metadata"]["name"])
        w.api.change("pods", key, lambda pod: pod["status"].update(restarted))
        await settle()
        found = w.get("jobs.batch", "a")
        assert conditions(found) == BACKOFF[:1], "failed once the pod is gone"
        assert (found["status"]["failed"], found["status"]["terminating"]) == (1, 1)
        w.api.delete("pods", key, Deletion(grace=0))
        await settle()
        found = w.get("jobs.batch", "a")
        assert conditions(found) == BACKOFF
        assert (found["status"]["failed"], found["status"]["terminating"]) == (1, 0)

    play(tmp_path, story)


def test_deadline(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(activeDeadlineSeconds=1, parallelism=2, completions=2))
        await until(lambda: len(conditions(w.get("jobs.batch", "a"))) == 2)
        found = w.get("jobs.batch", "a")
        why = "Job was active longer than specified deadline"
        assert conditions(found) == failed("DeadlineExceeded", why)
        assert found["status"]["failed"] == 2
        assert w.pods() == []
        assert len(w.events("SuccessfulDelete")) == 2

    play(tmp_path, story)


def test_time_to_live(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(ttlSecondsAfterFinished=1))
        await settle()
        w.end(w.pods()[0])
        await settle()
        assert conditions(w.get("jobs.batch", "a"))[-1] == complete("Complete")
        await until(lambda: not w.api.state.all("jobs.batch", NS))
        await settle()
        assert w.pods() == []

    play(tmp_path, story)


def test_suspend_and_resume(tmp_path: Path) -> None:
    def suspend(w: World, value: bool) -> None:
        w.api.change("jobs.batch", (NS, "a"), lambda one: one["spec"].update(suspend=value))

    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(suspend=True))
        await settle()
        found = w.get("jobs.batch", "a")
        assert conditions(found) == [("Suspended", "True", "JobSuspended", "Job suspended")]
        assert "startTime" not in found["status"] and not w.pods()
        suspend(w, False)
        await settle()
        found = w.get("jobs.batch", "a")
        assert conditions(found) == [("Suspended", "False", "JobResumed", "Job resumed")]
        assert found["status"]["startTime"] and found["status"]["active"] == 1
        suspend(w, True)
        await settle()
        found = w.get("jobs.batch", "a")
        assert conditions(found) == [("Suspended", "True", "JobSuspended", "Job suspended")]
        assert not w.pods() and not {"startTime", "failed", "active"} & found["status"].keys()

    play(tmp_path, story)


POLICY: Json = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
}


@pytest.mark.usefixtures("no_wait")
def test_failure_policy(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(podFailurePolicy=POLICY, backoffLimit=0))
        await settle()
        disrupted = [{"type": "DisruptionTarget", "status": "True"}]
        pod = w.pods()[0]
        key = (NS, pod["metadata"]["name"])
        w.api.change("pods", key, lambda one: one["status"].update(conditions=disrupted))
        w.end(pod, 1)
        await settle()
        found = w.get("jobs.batch", "a")
        assert "failed" not in found["status"], "ignored"
        (pod,) = [pod for pod in w.pods() if pod["status"]["phase"] == "Pending"]
        w.end(pod, 7)
        await settle()
        name = f"{NS}/{pod['metadata']['name']}"
        why = f"Container main for pod {name} failed with exit code 7"
        why += " matching FailJob rule at index 0"
        found = w.get("jobs.batch", "a")
        assert conditions(found) == failed("PodFailurePolicy", why)
        assert found["status"]["failed"] == 1
        assert found["spec"]["podReplacementPolicy"] == "Failed"

    play(tmp_path, story)


def indexed(**more: Any) -> Json:
    return job(completionMode="Indexed", parallelism=3, completions=3, **more)


def test_indexes(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", indexed())
        await settle()
        pods = w.pods()
        for at, pod in enumerate(pods):
            assert pod["metadata"]["name"].startswith(f"a-{at}-")
            assert pod["spec"]["hostname"] == f"a-{at}"
            for part in ("labels", "annotations"):
                assert pod["metadata"][part][job_view.INDEX] == str(at)
            path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
            source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
            variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
            assert pod["spec"]["containers"][0]["env"] == [variable]
        w.end(pods[2])
        w.end(pods[0])
        await settle()
        found = w.get("jobs.batch", "a")
        assert found["status"]["completedIndexes"] == "0,2"
        w.end(pods[1])
        await settle()
        found = w.get("jobs.batch", "a")
        assert found["status"]["completedIndexes"] == "0-2"
        assert conditions(found)[-1] == complete("Complete")

    play(tmp_path, story)


@pytest.mark.usefixtures("no_wait")
def test_backoff_limit_per_index(tmp_path: Path) -> None:
    async def story(w: World) -> None:
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
        assert (
            again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
        )
        w.end(again, 1)
        w.end(third)
        await settle()
        found = w.get("jobs.batch", "a")
        assert counts(found) | {"completedIndexes": "0,2", "failedIndexes": "1"} == counts(found)
        assert (found["status"]["succeeded"], found["status"]["failed"]) == (2, 2)
        assert conditions(found) == failed("FailedIndexes", "Job has failed indexes")

    play(tmp_path, story)


def test_success_policy(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        rules = {"rules": [{"succeededIndexes": "0"}]}
        w.create("jobs.batch", "a", indexed(successPolicy=rules))
        await settle()
        w.end(w.pods()[0])
        await settle()
        found = w.get("jobs.batch", "a")
        told = ("True", "SuccessPolicy", "Matched rules at index 0")
        assert conditions(found) == [("SuccessCriteriaMet", *told), ("Complete", *told)]
        assert len(w.pods()) == 1

    play(tmp_path, story)


def test_written_indexes() -> None:
    for text, found in (("", set()), ("1", {1}), ("0,2-4,6,7", {0, 2, 3, 4, 6, 7})):
        assert job_view.written(found) == text
        assert job_view.indexes(text, 10) == found
    assert job_view.indexes("0-9", 3) == {0, 1, 2}


def test_full_quota_is_told_and_tried_again(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("resourcequotas", "few", {"hard": {"pods": "1"}})
        w.create("jobs.batch", "a", job(parallelism=2, completions=2))
        await settle()
        assert len(w.pods()) == 1
        (told,) = w.events("FailedCreate")
        assert told.startswith('Error creating: pods "a-')
        assert told.endswith(
            "is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"
        )
        w.end(w.pods()[0])
        await until(lambda: len(w.pods()) == 2)

    play(tmp_path, story)


def test_deleted_pods_are_replaced(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job())
        await settle()
        w.api.delete("pods", (NS, w.pods()[0]["metadata"]["name"]))
        await settle()
        found = w.get("jobs.batch", "a")
        assert found["status"]["failed"] == 1, "as a real one counts it"

    play(tmp_path, story)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_deletion_takes_the_pods(tmp_path: Path, propagation: str) -> None:
    async def story(w: World) -> None:
        w.node()
        w.create("jobs.batch", "a", job())
        await settle()
        w.run(w.pods()[0])
        w.api.delete("jobs.batch", (NS, "a"), Deletion(propagation))
        await settle()
        (pod,) = w.pods()
        assert "deletionTimestamp" in pod["metadata"], "its node ends it"
        assert bool(w.api.state.get("jobs.batch", NS, "a")) == (propagation == "Foreground")
        w.api.delete("pods", (NS, pod["metadata"]["name"]), Deletion(grace=0))
        await settle()
        assert not w.pods() and not w.api.state.get("jobs.batch", NS, "a")

    play(tmp_path, story)


def test_orphaned_pods_stay(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job())
        await settle()
        w.api.delete("jobs.batch", (NS, "a"), Deletion("Orphan"))
        await settle()
        assert not w.api.state.get("jobs.batch", NS, "a")
        assert "ownerReferences" not in w.pods()[0]["metadata"]

    play(tmp_path, story)


def test_fewer_pods_when_parallelism_falls(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(parallelism=5, completions=9))
        await settle()
        assert len(w.pods()) == 5
        w.api.change("jobs.batch", (NS, "a"), lambda one: one["spec"].update(parallelism=2))
        await settle()
        found = w.get("jobs.batch", "a")
        assert len(w.pods()) == 2
        assert found["status"]["active"] == 2 and "failed" not in found["status"]

    play(tmp_path, story)


def test_many_pods_of_one_job(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.create("jobs.batch", "a", job(parallelism=600, completions=600))
        await until(lambda: len(w.pods()) == 600)
        for pod in w.pods():
            w.end(pod)
        await until(lambda: conditions(w.get("jobs.batch", "a")))
        assert w.get("jobs.batch", "a")["status"]["succeeded"] == 600

    play(tmp_path, story)
