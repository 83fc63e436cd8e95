"""Deployments of the practice cluster: their ReplicaSets, rolling updates and status."""

import time
from typing import Any

import pytest

from practice_tests.world import NS, World, settle

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
DEPLOYMENTS = "deployments.apps"
SETS = "replicasets.apps"
KEY = (NS, "web")


def spec(**fields: Any) -> Json:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "9"]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    return {"selector": {"matchLabels": {"app": "web"}}, "template": template, **fields}


def strategy(surge: int | str, unavailable: int | str) -> Json:
    return {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


async def deploy(w: World, **fields: Any) -> None:
    w.create(DEPLOYMENTS, "web", spec(**fields))
    await settle()


async def update(w: World, version: str, **fields: Any) -> None:
    def edit(deployment: Json) -> None:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "VERSION", "value": version}]
        deployment["spec"] |= fields

    w.api.change(DEPLOYMENTS, KEY, edit)
    await settle()


def version(pod: Json) -> str:
    return str(pod["spec"]["containers"][0].get("env", [{"value": "one"}])[0]["value"])


def versions(w: World) -> list[str]:
    return sorted(map(version, w.pods()))


async def run_all(w: World) -> None:
    """Let the pods that are not ready become ready."""
    for pod in w.pods():
        if pod["status"]["phase"] == "Pending":
            w.run(pod)
    await settle()


def progress(w: World) -> str:
    conditions = w.get(DEPLOYMENTS, "web")["status"]["conditions"]
    return str({item["type"]: item["reason"] for item in conditions}["Progressing"])


async def test_deployment_creates_replica_set_and_pods_and_becomes_available(w: World) -> None:
    await deploy(w, replicas=2)
    (replica_set,) = w.api.state.all(SETS, NS)
    template_hash = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{template_hash}"
    assert [pod["metadata"]["labels"]["pod-template-hash"] for pod in w.pods()] == (
        [template_hash] * 2
    )
    assert progress(w) == "ReplicaSetUpdated"

    await run_all(w)
    deployment = w.get(DEPLOYMENTS, "web")
    status = deployment["status"]
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    assert [status[count] for count in counts] == [2, 2, 2, 2]
    assert status["observedGeneration"] == deployment["metadata"]["generation"] == 1
    assert progress(w) == "NewReplicaSetAvailable"
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


@pytest.mark.parametrize(
    ("surge", "unavailable", "steps"),
    [
        (1, 0, ["one one two", "one two two", "two two"]),
        (0, 1, ["one two", "two two"]),
        ("100%", 0, ["one one two two", "two two"]),
        ("25%", "25%", ["one one two", "one two two", "two two"]),
    ],
)
async def test_deployment_update_replaces_pods_within_surge_and_unavailable(
    w: World, surge: int | str, unavailable: int | str, steps: list[str]
) -> None:
    await deploy(w, replicas=2, strategy=strategy(surge, unavailable))
    await run_all(w)
    await update(w, "two")
    for step in steps:
        assert versions(w) == step.split()
        await run_all(w)
    assert progress(w) == "NewReplicaSetAvailable"


async def test_deployment_without_progress_in_time_fails_until_next_version(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy(w, replicas=1, progressDeadlineSeconds=60)
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    w.api.change(DEPLOYMENTS, KEY, lambda item: item["metadata"].update(labels={"a": "b"}))
    await settle()
    assert progress(w) == "ProgressDeadlineExceeded"
    monkeypatch.undo()
    await update(w, "two")
    assert progress(w) == "ReplicaSetUpdated"


async def test_deployment_refused_pod_is_its_replica_failure(w: World) -> None:
    w.create("resourcequotas", "none", {"hard": {"pods": "0"}})
    await deploy(w, replicas=1)
    conditions = {item["type"]: item for item in w.get(DEPLOYMENTS, "web")["status"]["conditions"]}
    assert "exceeded quota: none" in conditions["ReplicaFailure"]["message"]
    assert "exceeded quota: none" in w.events("FailedCreate")[0]


async def test_replica_set_replaces_deleted_and_failed_pods(w: World) -> None:
    await deploy(w, replicas=2)
    await run_all(w)
    first, second = w.pods()
    w.api.delete("pods", (NS, first["metadata"]["name"]))
    w.end(second, 1)
    await settle()
    phases = sorted(pod["status"]["phase"] for pod in w.pods())
    assert phases == ["Failed", "Pending", "Pending"]
