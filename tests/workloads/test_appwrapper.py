"""An AppWrapper for all nodes: manifest, and node states by phase."""

from typing import Any

import pytest

from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import tasks
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.workloads.appwrapper import AppWrapper
from tests.builders import condition, make_indexed_pod, make_metadata, make_plan, terminated
from tests.reading import read_job, read_jobs
from tests.workloads.folding import fold

PREFIX = "workload.codeflare.dev.appwrapper/"
RUNNING: dict[str, Any] = {"running": {}}
UNHEALTHY = condition("Unhealthy", "FailedComponent")


def make_wrapper(phase: str = "", suspend: bool = False, limit: int = 0, **status: Any) -> Any:
    metadata = make_metadata("train-bcdf2345", nodes=3)
    metadata["annotations"] |= {
        "kubectl-sky/backend": "appwrapper",
        f"{PREFIX}retryLimit": str(limit),
    }
    job = {"template": {"spec": {"completions": 3, "template": {}}}}
    return {
        "kind": "AppWrapper",
        "metadata": metadata,
        "spec": {"suspend": suspend, "components": [job]},
        "status": {"phase": phase} | status,
    }


def plan_of(queue: str | None = None, recovery: Recovery | None = None, **more: Any) -> Plan:
    return make_plan(
        Task(
            name="train",
            num_nodes=3,
            run="true",
            resources=Resources(recovery=recovery, **more),
            kubernetes=Kubernetes(queue=queue),
            backend="appwrapper",
        )
    )


def test_appwrapper_manifest_wraps_indexed_job() -> None:
    (wrapper,) = manifests.render(plan_of()).workload
    assert wrapper.name == "AppWrapper/train-bcdf2345"
    assert "suspend" not in wrapper.object["spec"], "without a queue, no controller would resume it"
    (component,) = wrapper.object["spec"]["components"]
    job = component["template"]
    assert (job["kind"], job["metadata"]) == ("Job", {"name": "train-bcdf2345"})
    assert (job["spec"]["completions"], job["spec"]["backoffLimit"]) == (3, 0)
    (pod,) = AppWrapper().templates(wrapper.object)
    assert pod["metadata"]["labels"]["task-id"] == "bcdf2345"
    env = {variable["name"]: variable for variable in pod["spec"]["containers"][0]["env"]}
    assert env["KUBECTL_SKY_HOSTS"]["value"] == "train-bcdf2345-"


def test_appwrapper_queue_recovery_and_ttl_become_fields() -> None:
    plan = plan_of("gold", Recovery(2), ttl_seconds=90)
    (wrapper,) = manifests.render(plan).workload
    assert wrapper.object["spec"]["suspend"] is True
    assert wrapper.object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gold"
    annotations = wrapper.object["metadata"]["annotations"]
    assert annotations[f"{PREFIX}retryLimit"] == "2"
    assert annotations[f"{PREFIX}successTTLDuration"] == "90s"
    kept, counted = AppWrapper().notes(plan)
    assert kept.endswith("keeps its logs and its quota for an hour, or until `stop`")
    assert counted == ("job_recovery: all nodes start again together, whatever ended one, 2 times")


def test_appwrapper_recovery_without_number_is_refused() -> None:
    assert AppWrapper().fits(plan_of(recovery=Recovery(2))) == ""
    why = AppWrapper().fits(plan_of(recovery=Recovery(0)))
    assert why.endswith("job_recovery: {max_restarts_on_errors: 3}")


DONE_POD = make_indexed_pod(0, "Succeeded", terminated(0))
FAILED_POD = make_indexed_pod(1, "Failed", terminated(5))


STATES = {
    "new": (make_wrapper(), [], "pending pending pending"),
    "no pod yet": (make_wrapper("Resuming"), [], "pending pending pending"),
    "one runs": (
        make_wrapper("Running"),
        [make_indexed_pod(0, state=RUNNING)],
        "running pending pending",
    ),
    "one is done": (make_wrapper("Running"), [DONE_POD], "completed pending pending"),
    "may restart": (make_wrapper("Running", limit=1), [DONE_POD], "running pending pending"),
    "again": (make_wrapper("Running", limit=1), [FAILED_POD], "pending pending pending"),
    "being reset": (
        make_wrapper("Resetting", limit=1, resettingCount=1),
        [FAILED_POD],
        "pending pending pending",
    ),
    "not again": (
        make_wrapper("Failed", limit=1, resettingCount=1, conditions=[UNHEALTHY]),
        [DONE_POD, FAILED_POD],
        "completed failed failed",
    ),
    "done": (make_wrapper("Succeeded"), [], "completed completed completed"),
}


@pytest.mark.parametrize(("wrapper", "pods", "states"), STATES.values(), ids=STATES)
def test_appwrapper_node_states_follow_phase(
    wrapper: dict[str, Any], pods: list[dict[str, Any]], states: str
) -> None:
    assert " ".join(node.state for node in fold(wrapper, *pods).nodes) == states


def test_appwrapper_failed_node_stops_remaining_nodes() -> None:
    task = fold(make_wrapper("Failed", conditions=[UNHEALTHY]), FAILED_POD)
    assert (task.state, task.over, task.note) == (State.FAILED, True, "node-1: exit code 5")
    assert [node.reason for node in task.nodes] == ["Stopped", "Error", "Stopped"]


@pytest.mark.parametrize(
    ("phase", "reached"),
    [("Succeeded", condition("QuotaReserved", status="False")), ("Failed", UNHEALTHY)],
)
def test_appwrapper_nodes_end_with_it(phase: str, reached: dict[str, Any]) -> None:
    wrapper = make_wrapper(phase, conditions=[reached])
    assert {node.ended_at for node in fold(wrapper).nodes} == {reached["lastTransitionTime"]}
    assert AppWrapper().ended_at(read_job(make_wrapper("Running", conditions=[reached]))) == ""


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("CreateFailed", "the AppWrapper controller may not create it"),
        ("InsufficientPodsReady", "the nodes did not all start in time"),
        ("MissingComponent", "a user deleted its Job"),
        ("NewReason", ""),
    ],
)
def test_appwrapper_failure_reason_is_explained(reason: str, says: str) -> None:
    task = fold(make_wrapper("Failed", conditions=[condition("Unhealthy", reason)]))
    assert {node.reason for node in task.nodes} == {reason}
    assert task.nodes[0].message.startswith(says)


def test_appwrapper_restarts_are_counted_once() -> None:
    assert fold(make_wrapper("Running", limit=5, resettingCount=2)).restarts == 2


def test_appwrapper_suspended_node_is_queued_or_suspended() -> None:
    suspended = make_wrapper("Suspended", suspend=True)
    assert fold(suspended).nodes[0].message == "the AppWrapper is suspended"
    suspended["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gold"
    assert fold(suspended).note == "node-0: Queued"
    assert fold(make_wrapper("Suspending", suspend=True)).note == "node-0: Suspending"


@pytest.mark.parametrize("status", [{}, {"status": {}}, {"spec": {}}, {"status": {"phase": ""}}])
def test_appwrapper_without_status_is_pending(status: dict[str, Any]) -> None:
    (task,) = tasks(read_jobs([make_wrapper() | status]), [])
    assert task.state is State.PENDING


@pytest.mark.parametrize(("limit", "reason"), [(60, "DeadlineExceeded"), (3600, "Stopped")])
def test_appwrapper_failure_after_its_deadline_is_late(limit: int, reason: str) -> None:
    deployed = {**condition("ResourcesDeployed"), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    failed = {**UNHEALTHY, "lastTransitionTime": "2026-01-01T00:02:00Z"}
    wrapper = make_wrapper("Failed", conditions=[deployed, failed])
    wrapper["spec"]["components"][0]["template"]["spec"]["activeDeadlineSeconds"] = limit
    assert {node.reason for node in fold(wrapper).nodes} == {reason}
