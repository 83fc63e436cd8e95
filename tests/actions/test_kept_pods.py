"""Pods that a container keeps after `main` has ended: who ends them, and how."""

from typing import Any

import pytest

from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import TaskFailed
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.follow import follow
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.pipeline import wait_for_all
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import Wait
from kubectl_sky.words import kinds, names
from tests.actions.conftest import Submitter
from tests.builders import ID, terminated
from tests.fake_cluster import FakeCluster

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"


def end_main(api: FakeCluster, job: str, code: int = 0, at: str = "2026-01-01T00:05:00Z") -> str:
    """Let `main` of a Job's next pod end while a container beside it runs."""
    pod = api.start(job)
    main = {"name": "main", "state": terminated(code, at=at)}
    proxy = {"name": "proxy", "state": {"running": {}}}
    api.change(kinds.POD, pod, status={"phase": "Running", "containerStatuses": [main, proxy]})
    return pod


def deadline(api: FakeCluster, pod: str) -> int | None:
    seconds: int | None = api.get(kinds.POD, pod)["spec"].get("activeDeadlineSeconds")
    return seconds


def current(api: FakeCluster) -> TaskStatus:
    return find.get_task(api.session(), Scope("default", None), ID)


def test_follow_main_completed_ends_kept_pod(api: FakeCluster, send: Submitter) -> None:
    send.ui.then = lambda: end_main(api, JOB)
    send(HELLO, follow=True)
    assert deadline(api, f"{JOB}-0") == 1
    job = api.get(kinds.JOB, JOB)
    assert job["spec"]["backoffLimit"] == 0, "nothing runs again"
    api.remove(kinds.POD, f"{JOB}-0")
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    api.change(kinds.JOB, JOB, status={"conditions": [failed]})
    assert current(api).state is State.COMPLETED
    expected = "container proxy keeps the pod although main has ended; stopping what remains"
    assert send.ui.noted.count(expected) == 1


def test_follow_main_failed_ends_kept_pod_and_leaves_job(api: FakeCluster, send: Submitter) -> None:
    send.ui.then = lambda: end_main(api, JOB, 3)
    with pytest.raises(TaskFailed, match="failed: node-0: exit code 3"):
        send(HELLO, follow=True)
    assert api.writes[-1] == f"patch pods {JOB}-0"
    assert api.count("patch jobs") == 0, "it fails by itself"


def test_follow_main_failed_with_retry_left_ends_kept_pod_and_goes_on(
    api: FakeCluster, send: Submitter
) -> None:
    def restart() -> None:
        api.finish(JOB, 3, final=False)
        api.start(JOB)
        api.finish(JOB)

    send.ui.then = lambda: end_main(api, JOB, 3)
    api.after("patch pods", restart)
    send(HELLO + "resources: {job_recovery: {max_restarts_on_errors: 1}}\n", follow=True)
    assert current(api).restarts == 1


def test_follow_container_that_ends_soon_after_main_is_not_stopped(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_sky.tasks.stop.KEPT_SECONDS", 1e9)
    send.ui.then = lambda: end_main(api, JOB)
    api.before("get pods/log", lambda: api.finish(JOB), nth=2)
    send(HELLO, follow=True)
    assert api.count("patch pods") == 0


@pytest.mark.parametrize(("code", "state"), [(0, State.COMPLETED), (3, State.FAILED)])
def test_logs_and_wait_of_main_ended_return_and_change_nothing(
    api: FakeCluster, send: Submitter, code: int, state: State
) -> None:
    send(HELLO)
    api.requests.clear()
    end_main(api, JOB, code)
    task = current(api)
    if code:
        with pytest.raises(TaskFailed, match="exit code 3"):
            follow(api.session(), task, LogRequest(LogOptions(follow=True)), send.ui)
    else:
        follow(api.session(), task, LogRequest(LogOptions(follow=True)), send.ui)
    (waited,) = wait_for_all(api.session(), [task], Wait(), UI())
    assert (waited.state, api.writes) == (state, [])


def test_wait_continue_main_ended_ends_kept_pod(api: FakeCluster, send: Submitter) -> None:
    send(HELLO)
    pod = end_main(api, JOB)
    wait_for_all(api.session(), [current(api)], Wait(leads=True), UI())
    assert deadline(api, pod) == 1


def test_follow_pipeline_stage_kept_by_container_resumes_next_stage(
    api: FakeCluster, send: Submitter
) -> None:
    def jobs() -> list[str]:
        return [plan.name for plan in send.ui.results[0].decision.plans]

    def finish_second() -> None:
        api.start(jobs()[1])
        api.finish(jobs()[1])

    send.ui.then = lambda: end_main(api, jobs()[0])
    api.after("patch jobs", finish_second, nth=2)  # the first one marks the first stage
    send(PIPELINE, follow=True)
    assert deadline(api, f"{jobs()[0]}-0") == 1


def test_follow_indexed_task_ends_kept_pods_when_all_nodes_have_ended(
    api: FakeCluster, send: Submitter
) -> None:
    pods: list[str] = []

    def end_node(rank: int) -> None:
        pod = end_main(api, JOB)
        item: dict[str, Any] = api.get(kinds.POD, pod)
        item["metadata"]["annotations"] = {
            **(item["metadata"].get("annotations") or {}),
            "batch.kubernetes.io/job-completion-index": str(rank),
        }
        api.put(item)
        pods.append(pod)

    def end_second() -> None:
        assert (len(pods), deadline(api, pods[0])) == (1, None)
        end_node(1)

    send.ui.then = lambda: end_node(0)
    api.before("get pods/log", end_second, nth=2)
    send(HELLO + "num_nodes: 2\n", follow=True, backend="indexed")
    assert [deadline(api, pod) for pod in pods] == [1, 1]
    assert names.MAIN_ENDED in api.get(kinds.JOB, JOB)["metadata"]["annotations"]


def test_follow_without_right_to_patch_pods_ends_all_the_same(
    api: FakeCluster, send: Submitter
) -> None:
    api.forbidden.add("patch pods")
    send.ui.then = lambda: end_main(api, JOB)
    send(HELLO, follow=True)
    assert current(api).state is State.COMPLETED
    assert [text for text in send.ui.noted if "may not patch pods" in text]
