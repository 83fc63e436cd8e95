"""Nodes that their cluster node keeps from running: who starts them again, and when."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from kubectl_sky.cluster.session import Json
from kubectl_sky.errors import SkyError, TaskFailed
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.lost_pods import replace_lost_pods
from kubectl_sky.tasks.pipeline import lead, wait_for_all
from kubectl_sky.tasks.rejected_pods import move_rejected
from kubectl_sky.tasks.watch import Wait
from kubectl_sky.words import age, kinds, names
from tests.actions.conftest import Run, Submitter
from tests.builders import ID, condition, make_silent
from tests.fake_cluster import FakeCluster

TASK = (
    "name: pair\nnum_nodes: 2\nresources: {job_recovery: {max_restarts_on_errors: 1}}\nrun: train\n"
)
PLAIN = "name: pair\nnum_nodes: 2\nrun: train\n"
JOBS = [f"pair-{ID}-node-{rank}" for rank in range(2)]
LOST = f"{JOBS[1]}-0"
AFTER = timedelta(minutes=5)
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NOTE = "pair: node-1: its pod on cluster node n3, which does not respond, was removed"


def lose(api: FakeCluster, since: timedelta = timedelta(minutes=6), grace: int = 0) -> None:
    """Start both nodes, and lose the cluster node of the second one, whose pod is marked."""
    for job in JOBS:
        api.start(job)
    stamp = age.timestamp(datetime.now(UTC) - since)
    pod = make_silent(api.get(kinds.POD, LOST), "n3", stamp)
    pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    api.put(pod)
    api.stays[LOST] = grace
    api.remove(kinds.POD, LOST)
    api.stop_kubelet("n3")


def exists(api: FakeCluster, pod: str = LOST) -> bool:
    return f"pods {pod}" in api.names()


def current(api: FakeCluster) -> TaskStatus:
    return find.get_task(api.session(), Scope("default", None), ID)


def wait(api: FakeCluster, send: Submitter, after: timedelta | None = AFTER) -> None:
    """Wait for a second as `wait --continue` does."""
    lead = Wait(timeout=1, leads=True, node_lost_after=after)
    with pytest.raises(SkyError, match="gave up waiting"):
        wait_for_all(api.session(), [current(api)], lead, send.ui)


def test_submit_that_follows_replaces_pod_of_lost_cluster_node(
    api: FakeCluster, send: Submitter
) -> None:
    def restart() -> None:
        assert not exists(api)
        api.start(JOBS[1])
        for job in JOBS:
            api.finish(job)

    send.ui.then = lambda: lose(api)
    api.after("patch pods", restart)
    send(TASK, follow=True)
    assert current(api).state is State.COMPLETED
    assert send.ui.noted.count(NOTE) == 1


def test_status_of_lost_node_has_since_when(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    lose(api)
    node = current(api).nodes[1]
    assert (node.reason, node.message) == ("Terminating", "cluster node n3 does not respond")
    assert node.as_json()["lost_since"]


@pytest.mark.parametrize(
    ("lost_for", "after", "removed"),
    [
        (timedelta(minutes=6), AFTER, True),
        (timedelta(minutes=4), AFTER, False),
        (timedelta(days=6), None, False),
    ],
)
def test_wait_continue_replaces_pod_after_the_time_of_the_setting(
    api: FakeCluster, send: Submitter, lost_for: timedelta, after: timedelta | None, removed: bool
) -> None:
    send(TASK)
    lose(api, lost_for)
    wait(api, send, after)
    assert exists(api) is not removed
    assert (NOTE in send.ui.noted) is removed


def test_pod_is_left_within_its_grace_period(api: FakeCluster, send: Submitter) -> None:
    """Meanwhile a Job that does not recover notes the failure, and removes its finalizer."""
    send(TASK)
    lose(api, grace=30)
    wait(api, send)
    assert exists(api)
    assert api.count("get pods") == 1, "it looks again every few seconds"


def test_task_without_recovery_fails_with_its_cluster_node(
    api: FakeCluster, send: Submitter, run: Run
) -> None:
    def lose_and_taint(api: FakeCluster) -> None:
        lose(api)
        pod = api.get(kinds.POD, LOST)
        taint = condition("DisruptionTarget", "DeletionByTaintManager")
        pod["status"]["conditions"].append(taint)
        api.put(pod)

    submit_until_lost(api, send, lose_and_taint)
    assert exists(api), "it is the evidence"
    assert api.count(f"patch jobs {JOBS[0]}") == 1, "the other node is stopped"
    assert "failed: its cluster node was lost" in run("doctor", ID)[1]


def submit_until_lost(
    api: FakeCluster, send: Submitter, lose_pod: Callable[[FakeCluster], None]
) -> None:
    """Follow a task without job_recovery, whose Job fails with a lost pod."""

    def fail() -> None:
        lose_pod(api)
        failing = condition("FailureTarget", "BackoffLimitExceeded")
        api.change(kinds.JOB, JOBS[1], status={"failed": 1, "conditions": [failing]})

    send.ui.then = fail
    api.after("patch jobs", lambda: api.finish(JOBS[0], 143))
    with pytest.raises(TaskFailed, match="failed: node-1: its cluster node was lost"):
        send(PLAIN, follow=True)


def lose_early(api: FakeCluster) -> None:
    """Lose a pod that was not ready yet: the node controller does not change its conditions."""
    lose(api)
    pod = api.get(kinds.POD, LOST)
    stamp = age.timestamp(datetime.now(UTC) - timedelta(seconds=29))  # late in a second
    pod["metadata"] |= {"deletionTimestamp": stamp, "deletionGracePeriodSeconds": 30}
    pod["status"]["conditions"] = [
        condition("ContainersReady", "ContainersNotReady", status="False"),
        condition("Ready", "ContainersNotReady", status="False"),
        condition("DisruptionTarget", "DeletionByTaintManager"),
    ]
    api.put(pod)


def test_task_whose_pod_was_not_ready_fails_with_its_cluster_node(
    api: FakeCluster, send: Submitter, run: Run
) -> None:
    submit_until_lost(api, send, lose_early)
    assert "node-1: its cluster node was lost" in run("list")[1]


def test_pod_that_was_not_ready_is_replaced(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    lose_early(api)
    wait(api, send, timedelta(seconds=1))
    assert not exists(api)


def test_failed_task_whose_lost_pod_was_removed_keeps_its_cause(
    api: FakeCluster, send: Submitter
) -> None:
    """Of a JobSet without restarts, for example, whose Job waits for the pod."""
    send(PLAIN)
    lose(api)
    pod = api.get(kinds.POD, LOST)
    taint = condition("DisruptionTarget", "DeletionByTaintManager")
    pod["status"]["conditions"].append(taint)
    api.put(pod)
    wait(api, send)
    assert not exists(api)
    failed = condition("Failed", "BackoffLimitExceeded")
    api.change(kinds.JOB, JOBS[1], status={"failed": 1, "conditions": [failed]})
    assert current(api).note == "node-1: its cluster node was lost"


def test_wait_without_continue_removes_nothing(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    lose(api)
    with pytest.raises(SkyError, match="gave up waiting"):
        wait_for_all(api.session(), [current(api)], Wait(timeout=1), send.ui)
    assert exists(api)


def test_pod_whose_cluster_node_came_back_is_left(api: FakeCluster, send: Submitter) -> None:
    """Its status was read before, and another pod may have its name now."""
    send(TASK)
    lose(api)
    seen = current(api)
    pod = api.get(kinds.POD, LOST)
    pod["status"]["conditions"] = []
    api.put(pod)
    replace_lost_pods(api.session(), seen, AFTER)
    assert exists(api)


def test_wait_without_right_to_delete_pods_says_so_once(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    lose(api)
    api.forbidden.add("delete pods")
    wait(api, send)
    assert exists(api)
    assert api.count("delete pods") == 1
    (note,) = (text for text in send.ui.noted if "delete" in text)
    assert "repair cluster node n3" in note


def test_setting_of_lost_nodes_is_in_seconds_and_0_is_never(
    api: FakeCluster, send: Submitter, run: Run
) -> None:
    send(TASK)
    lose(api)
    assert run("config", "set", "node_lost_after", "0")[0] == 0
    run("wait", ID, "--continue", "--timeout", "1s")
    assert exists(api)
    assert run("config", "set", "node_lost_after", "60")[0] == 0
    run("wait", ID, "--continue", "--timeout", "1s")
    assert not exists(api)


PATIENT = "name: one\nresources: {job_recovery: {max_restarts_on_errors: 3}}\nrun: train\n"
REFUSED_JOB = f"one-{ID}"
REFUSALS = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no such device"}
RULE = {"key": "metadata.name", "operator": "NotIn", "values": ["n3"]}
OTHERS = {"weight": 100, "preference": {"matchFields": [RULE]}}


def reject(api: FakeCluster, hosts: str = "n3 n3") -> None:
    """Let cluster nodes reject one pod after the other."""
    for host in hosts.split():
        pod = api.start(REFUSED_JOB, host)
        api.change(kinds.POD, pod, status=REFUSALS)
    failures = {"failed": len(hosts.split()), "active": 0}
    api.change(kinds.JOB, REFUSED_JOB, status=failures)


def suspend(api: FakeCluster) -> None:
    """Let the controller see that the Job is suspended."""
    status = {"failed": 2, "active": 0, "conditions": [condition("Suspended")]}
    api.change(kinds.JOB, REFUSED_JOB, status=status)


def find_preferred(api: FakeCluster) -> list[Json]:
    spec = api.get(kinds.JOB, REFUSED_JOB)["spec"]["template"]["spec"]
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms: list[Json] = affinity.get(PREFERRED, [])
    return terms


def read_marks(api: FakeCluster) -> tuple[bool, Json]:
    """Return whether the Job is suspended, and what its annotations tell of that."""
    job = api.get(kinds.JOB, REFUSED_JOB)
    annotations = job["metadata"]["annotations"]
    marks = {key: annotations[key] for key in (names.LEAVES, names.LEFT) if key in annotations}
    return bool(job["spec"].get("suspend")), marks


def test_job_is_moved_away_from_cluster_node_that_has_rejected_two_pods(
    api: FakeCluster, send: Submitter
) -> None:
    def restart() -> None:
        api.start(REFUSED_JOB, "n1")
        api.finish(REFUSED_JOB)

    send.ui.then = lambda: reject(api)
    api.after("patch jobs", lambda: suspend(api))
    api.after("patch jobs", restart, nth=2)
    send(PATIENT, follow=True)
    assert current(api).state is State.COMPLETED
    assert find_preferred(api) == [OTHERS]
    assert read_marks(api) == (False, {names.LEFT: "n3"})
    note = "one: node-0: cluster node n3 rejected two of its pods; others are preferred now"
    assert send.ui.noted.count(note) == 1


def test_moved_job_keeps_its_other_preferences_and_is_not_moved_again(
    api: FakeCluster, send: Submitter
) -> None:
    send(PATIENT)
    reject(api)
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    job = api.get(kinds.JOB, REFUSED_JOB)
    job["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {PREFERRED: [term]}}
    api.put(job)
    api.after("patch jobs", lambda: suspend(api))
    wait(api, send)
    wait(api, send)
    assert find_preferred(api) == [term, OTHERS]

    reject(api, "n3")
    wait(api, send)
    assert api.count("patch jobs") == 2, "it was moved away from n3 already"


@pytest.mark.parametrize(
    ("hosts", "labels", "leads"),
    [
        ("n3", {}, True),
        ("n3 n1", {}, True),
        ("n3 n1 n3", {}, True),
        ("n3 n3", {names.QUEUE: "gpus"}, True),  # its queue suspends and resumes it
        ("n3 n3", {}, False),
    ],
)
def test_job_stays_where_it_is(
    api: FakeCluster, send: Submitter, hosts: str, labels: dict[str, str], leads: bool
) -> None:
    send(PATIENT)
    reject(api, hosts)
    job = api.get(kinds.JOB, REFUSED_JOB)
    job["metadata"]["labels"] |= labels
    api.put(job)
    with pytest.raises(SkyError, match="gave up waiting"):
        wait_for_all(api.session(), [current(api)], Wait(timeout=1, leads=leads), send.ui)
    assert api.count("patch jobs") == 0


@pytest.mark.parametrize("status", [403, 422], ids=["by a policy", "before Kubernetes 1.36"])
def test_job_that_cannot_be_moved_is_resumed(
    api: FakeCluster, send: Submitter, status: int
) -> None:
    send(PATIENT)
    reject(api)
    api.after("patch jobs", lambda: suspend(api))
    api.before("patch jobs", lambda: status, nth=2)
    wait(api, send)
    wait(api, send)
    advice = "rejected two of its pods; submit the task again with --exclude-node n3"
    assert send.ui.noted.count(f"one: node-0: cluster node n3 {advice}") == 1
    assert read_marks(api) == (False, {names.LEFT: "n3"})
    wait(api, send)
    assert api.count("patch jobs") == 3, "it is not tried again"


def test_job_that_another_client_has_suspended_is_resumed_without_its_pods(
    api: FakeCluster, send: Submitter
) -> None:
    """The cluster node may have been deleted meanwhile, and its pods with it."""
    send(PATIENT)
    reject(api)
    assert move_rejected(api.session(), current(api)) == ([], True)
    assert read_marks(api) == (True, {names.LEAVES: "n3"})

    for pod in [name for name in api.names() if name.startswith("pods ")]:
        api.remove(kinds.POD, pod.removeprefix("pods "))
    suspend(api)
    wait(api, send)
    assert read_marks(api) == (False, {names.LEFT: "n3"})


def test_job_that_its_user_has_suspended_stays_suspended(api: FakeCluster, send: Submitter) -> None:
    send(PATIENT)
    reject(api)
    job = api.get(kinds.JOB, REFUSED_JOB)
    job["spec"]["suspend"] = True
    api.put(job)
    suspend(api)
    wait(api, send)
    assert read_marks(api) == (True, {})


def test_lead_of_a_controller_moves_a_job_in_two_steps(api: FakeCluster, send: Submitter) -> None:
    send(PATIENT)
    reject(api)
    api.after("patch jobs", lambda: suspend(api))
    now = datetime.now(UTC)
    first = lead(api.session(), current(api), now, None)
    assert (first.steps, first.seconds) == ([], 1)
    second = lead(api.session(), current(api), now, None)
    assert [text.partition(": ")[2] for text in second.steps] == [
        "node-0: cluster node n3 rejected two of its pods; others are preferred now"
    ]
