"""ResourceQuotas and LimitRanges, with the messages that kubectl-sky explains."""

import pytest

from kubectl_sky_practice.problems import Problem
from practice_tests.world import NS, Json, World, until

pytestmark = pytest.mark.anyio


def pod(requests: Json | None = None, limits: Json | None = None, *names: str) -> Json:
    resources: Json = {}
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits
    return {
        "containers": [
            {"name": name, "image": "x", "resources": resources} for name in names or ("main",)
        ]
    }


def claim(storage: str) -> Json:
    requests = {"requests": {"storage": storage}}
    return {"accessModes": ["ReadWriteOnce"], "resources": requests}


def refused(w: World, storage: str, spec: Json) -> str:
    with pytest.raises(Problem) as error:
        w.create(storage, "refused", spec)
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    start = f'{storage} "refused" is forbidden: '
    assert error.value.message.startswith(start)
    return error.value.message.removeprefix(start)


def used(w: World) -> Json:
    status: Json = w.get("resourcequotas", "few")["status"] or {"hard": {}, "used": {}}
    assert status["hard"].keys() == status["used"].keys()
    amounts: Json = status["used"]
    return amounts


async def test_quota_requires_limits_of_containers(w: World) -> None:
    w.create("resourcequotas", "few", {"hard": {"limits.cpu": "2", "requests.memory": "1Gi"}})
    spec = pod(None, None, "main")
    spec["containers"] += pod(None, {"cpu": "1"}, "x")["containers"]
    why = "failed quota: few: must specify limits.cpu for: main; requests.memory for: main,x"
    assert refused(w, "pods", spec) == why


async def test_quota_compute_resources_are_counted(w: World) -> None:
    hard = {"pods": "3", "limits.cpu": "2", "requests.memory": "1Gi"}
    hard["requests.nvidia.com/gpu"] = "2"
    w.create("resourcequotas", "few", {"hard": hard})
    much = pod(None, {"cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "3"})
    assert refused(w, "pods", much) == (
        "exceeded quota: few, requested: limits.cpu=3,requests.memory=2Gi,"
        "requests.nvidia.com/gpu=3, used: limits.cpu=0,requests.memory=0,"
        "requests.nvidia.com/gpu=0, limited: limits.cpu=2,requests.memory=1Gi,"
        "requests.nvidia.com/gpu=2"
    )

    w.create("pods", "a", pod(None, {"cpu": "1", "memory": "1Mi"}))
    full = {"pods": "1", "limits.cpu": "1", "requests.memory": "1Mi"}
    await until(lambda: used(w) == {**full, "requests.nvidia.com/gpu": "0"})
    w.end(w.get("pods", "a"))
    await until(lambda: set(used(w).values()) == {"0"})  # finished pods use no quota


async def test_quota_storage_is_counted(w: World) -> None:
    hard = {"requests.storage": "2Gi", "persistentvolumeclaims": "1"}
    w.create("resourcequotas", "few", {"hard": hard})
    why = "exceeded quota: few, requested: requests.storage=3Gi, used: requests.storage=0,"
    why += " limited: requests.storage=2Gi"
    assert refused(w, "persistentvolumeclaims", claim("3Gi")) == why
    w.create("persistentvolumeclaims", "a", claim("1Gi"))
    await until(lambda: used(w) == {"requests.storage": "1Gi", "persistentvolumeclaims": "1"})


def limit(w: World, **item: object) -> None:
    if w.api.state.get("limitranges", NS, "small"):
        w.api.delete("limitranges", (NS, "small"))
    w.create("limitranges", "small", {"limits": [item]})


async def test_limit_range_of_pods_and_pvcs_is_enforced(w: World) -> None:
    limit(w, type="Pod", max={"cpu": "1"}, min={"cpu": "500m"})
    two = pod(None, {"cpu": "1"}, "a", "b")
    assert refused(w, "pods", two) == "maximum cpu usage per Pod is 1, but limit is 2"
    assert refused(w, "pods", pod()) == (
        "[minimum cpu usage per Pod is 500m.  No request is specified,"
        " maximum cpu usage per Pod is 1.  No limit is specified]"
    )
    limit(w, type="PersistentVolumeClaim", max={"storage": "1Gi"}, min={"storage": "1Mi"})
    why = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    assert refused(w, "persistentvolumeclaims", claim("2Gi")) == why


async def test_priority_class_sets_priority_and_must_exist(w: World) -> None:
    why = "no PriorityClass with name high was found"
    assert refused(w, "pods", {**pod(), "priorityClassName": "high"}) == why
    w.create("priorityclasses.scheduling.k8s.io", "high", value=7)
    created = w.create("pods", "a", {**pod(), "priorityClassName": "high"})
    assert (created["spec"]["priority"], created["spec"]["preemptionPolicy"]) == (
        7,
        "PreemptLowerPriority",
    )
    assert w.create("pods", "b", pod())["spec"]["priority"] == 0
