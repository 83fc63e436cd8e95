"""MPIJobs: manifest and node states."""

from typing import Any

import pytest

from kubectl_sky.observe.nodes import State
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Accelerator, Resources, Task
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.mpijob import MPIJob
from tests.builders import (
    condition,
    make_controller,
    make_metadata,
    make_plan,
    make_pod,
    terminated,
)
from tests.reading import read_job
from tests.workloads.folding import fold

BACKEND = MPIJob()
RANK = "training.kubeflow.org/replica-index"
RUNNING: dict[str, Any] = {"running": {}}
FAILED = condition("Failed", "BackoffLimitExceeded/")


def make_mpijob(**status: Any) -> dict[str, Any]:
    metadata = make_metadata("train-bcdf2345", nodes=3)
    metadata["annotations"]["kubectl-sky/backend"] = "mpijob"
    spec = {"runPolicy": {"backoffLimit": 1}, "mpiReplicaSpecs": {"Worker": {"replicas": 2}}}
    return {"kind": "MPIJob", "metadata": metadata, "spec": spec, "status": status}


def pod(rank: int, phase: str = "Running", state: Any = None) -> dict[str, Any]:
    found = make_pod(0, phase, state or RUNNING)
    found["metadata"]["labels"] |= {RANK: str(rank)}
    found["metadata"]["name"] = f"train-{rank}"
    found["metadata"]["ownerReferences"] = make_controller("train-bcdf2345")
    return found


def plan_of(nodes: int = 3, **resources: Any) -> Plan:
    asked = Resources(**resources)
    return make_plan(
        Task(name="train", num_nodes=nodes, run="x", resources=asked, backend="mpijob")
    )


def spec_of(plan: Plan) -> dict[str, Any]:
    (item,) = manifests.render(plan).workload
    assert item.name == "MPIJob/train-bcdf2345"
    spec: dict[str, Any] = item.object["spec"]
    return spec


def test_mpijob_manifest_has_launcher_and_workers() -> None:
    rendered = manifests.render(plan_of())
    (item,) = rendered.workload
    spec = item.object["spec"]
    assert (spec["slotsPerWorker"], spec["runLauncherAsWorker"]) == (1, True)
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 0}

    launcher, worker = spec["mpiReplicaSpecs"].values()
    assert (launcher["replicas"], worker["replicas"]) == (1, 2)
    assert BACKEND.templates(item.object) == (launcher["template"], worker["template"])
    assert launcher["template"] == worker["template"]

    env = {one["name"]: one for one in launcher["template"]["spec"]["containers"][0]["env"]}
    assert env["KUBECTL_SKY_SERVICE"]["value"] == "train-bcdf2345"

    told = env["NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert told == f"metadata.labels['{RANK}']"
    assert [one.object["kind"] for one in rendered.auxiliary] == ["ConfigMap"], (
        "the operator creates the Service"
    )
    assert list(rendered.auxiliary[0].object["data"]) == ["run.sh"]
    assert {"mpi.sh", "session.sh"} < rendered.shared[0].object["data"].keys()


def test_mpijob_slots_equal_gpus() -> None:
    assert spec_of(plan_of(accelerator=Accelerator("A100", 8)))["slotsPerWorker"] == 8


def test_mpijob_single_node_has_launcher_only() -> None:
    assert list(spec_of(plan_of(nodes=1))["mpiReplicaSpecs"]) == ["Launcher"]
    assert BACKEND.notes(plan_of(nodes=1)) == []


def test_mpijob_recovery_becomes_backoff_limit() -> None:
    plan = plan_of(recovery=Recovery(2), ttl_seconds=60)
    spec = spec_of(plan)
    assert spec["runPolicy"]["backoffLimit"] == 2
    assert spec["runPolicy"]["ttlSecondsAfterFinished"] == 60
    restarts = [one["restartPolicy"] for one in spec["mpiReplicaSpecs"].values()]
    assert restarts == ["Never", "OnFailure"], "workers restart for the next launcher"
    assert BACKEND.fits(plan) == ""
    assert "it counts evictions" in BACKEND.fits(plan_of(recovery=Recovery()))
    where, again, autostop = BACKEND.notes(plan)
    assert "rank 0 alone" in where
    assert again.endswith("whatever ended it, 2 times")
    assert autostop.startswith("autostop: ")


def test_mpijob_in_queue_is_suspended() -> None:
    asked = Kubernetes(queue="gold")
    plan = make_plan(Task(num_nodes=2, run="x", kubernetes=asked, backend="mpijob"))
    (item,) = manifests.render(plan).workload
    assert item.object["spec"]["runPolicy"]["suspend"] is True
    assert registry.is_suspended(item.object)
    assert BACKEND.resuming({}) == {"spec": {"runPolicy": {"suspend": False}}}
    task = fold(item.object)
    assert {node.message for node in task.nodes} == {"in the queue gold"}


STATES = {
    "no pod yet": (make_mpijob(), [], "pending pending pending"),
    "a worker is missing": (make_mpijob(), [pod(0), pod(2)], "running pending running"),
    "the launcher starts again": (
        make_mpijob(replicaStatuses={"Launcher": {"failed": 1}}),
        [pod(0, "Failed", terminated(5)), pod(1), pod(2)],
        "pending running running",
    ),
    "the launcher does not start again": (
        make_mpijob(replicaStatuses={"Launcher": {"failed": 2}}),
        [pod(0, "Failed", terminated(5)), pod(1), pod(2)],
        "running running running",
    ),
    "rank 0 is done": (
        make_mpijob(conditions=[condition("Succeeded")]),
        [pod(0, "Succeeded", terminated(0)), pod(1)],
        "completed completed completed",
    ),
}


@pytest.mark.parametrize(("item", "pods", "states"), STATES.values(), ids=STATES)
def test_mpijob_node_states_follow_pods(
    item: dict[str, Any], pods: list[dict[str, Any]], states: str
) -> None:
    assert " ".join(node.state for node in fold(item, *pods).nodes) == states


@pytest.mark.parametrize(
    ("kind", "ended"), [("Succeeded", "00:09:00"), ("Failed", "00:09:00"), ("Running", "")]
)
def test_mpijob_ends_with_its_final_condition(kind: str, ended: str) -> None:
    item = make_mpijob(conditions=[condition(kind)])
    assert BACKEND.ended_at(read_job(item)) == (f"2026-01-01T{ended}Z" if ended else "")


def test_mpijob_failed_launcher_stops_workers() -> None:
    item = make_mpijob(conditions=[FAILED], replicaStatuses={"Launcher": {"failed": 2}})
    task = fold(item, pod(0, "Failed", terminated(7)))
    assert (task.state, task.over, task.restarts) == (State.FAILED, True, 1)
    assert [node.reason for node in task.nodes] == ["Error", "Stopped", "Stopped"]
    assert task.note == "node-0: exit code 7 after 1 restart"


def test_mpijob_foreign_spec_is_accepted() -> None:
    item = make_mpijob()
    item["spec"] = {}
    assert [node.index for node in fold(item).nodes] == [0]
